"""Hard choices from soft mixtures, and the softmax Jacobian of their credit, one token at a time in buffers that stay in
cache."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from statetrack.scan.cpu.loops import _jit
from statetrack.scan.cpu.threads import over_ranges


@_jit
def _choose(scores, mix, out, start, stop):
    """``out (T, H, N)``: for work items ``token * H + h``, the first largest entry along axis 2 of ``scores (H, K, N, N)``
    mixed."""
    n_heads, n_entries, n = scores.shape[0], scores.shape[1], scores.shape[2]
    row, best, choice = np.empty(n, scores.dtype), np.empty(n, scores.dtype), np.empty(n, np.int32)
    for item in range(start, stop):
        token, h = item // n_heads, item % n_heads
        for i in range(n):
            row[:] = 0
            for k in range(n_entries):
                weight, entry = mix[token, h, k], scores[h, k, i]
                for q in range(n):
                    row[q] += weight * entry[q]
            if i == 0:
                best[:] = row
                choice[:] = 0
            else:
                for q in range(n):
                    better = row[q] > best[q]
                    best[q] = row[q] if better else best[q]
                    choice[q] = i if better else choice[q]
        for q in range(n):
            out[token, h, q] = choice[q]


def choose(scores: Tensor, mix: Tensor, dim: int) -> Tensor:
    """``(T, H, N)`` int16 maps from ``scores (H, K, N, N)`` and ``mix (T, H, K)``, chosen along axis ``dim`` (-2 or -1)."""
    out = torch.empty(*mix.shape[:2], scores.shape[-1], dtype=torch.int16)
    table = (scores if dim == -2 else scores.mT).contiguous().numpy()
    weights, maps = mix.contiguous().numpy(), out.numpy()
    over_ranges(len(mix) * mix.shape[1], lambda lo, hi: _choose(table, weights, maps, lo, hi))
    return out


@_jit
def _jacobian(p, u, v, start, stop):
    """``p (T, N, N)``, a softmax along axis 1, becomes ``p * (G - <p, G>)`` for ``G = sum over parts of u v^T``; ``u, v (T,
    parts, N)``."""
    n = p.shape[1]
    mean, total = np.empty(n, p.dtype), np.empty(n, p.dtype)
    for t in range(start, stop):
        total[:] = 0
        for part in range(u.shape[1]):
            left, right = u[t, part], v[t, part]
            mean[:] = 0
            for i in range(n):
                weight, row = left[i], p[t, i]
                for q in range(n):
                    mean[q] += weight * row[q]
            for q in range(n):
                total[q] += mean[q] * right[q]
        for i in range(n):
            row = p[t, i]
            if u.shape[1] == 1:
                weight, right = u[t, 0, i], v[t, 0]
                for q in range(n):
                    row[q] *= weight * right[q] - total[q]
            else:
                first, second, one, two = u[t, 0, i], u[t, 1, i], v[t, 0], v[t, 1]
                for q in range(n):
                    row[q] *= first * one[q] + second * two[q] - total[q]


def jacobian_(p: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Turn a softmax ``p (T, N, N)`` along axis 1 into its Jacobian applied to ``Re(conj(u) v^T)``, in place; ``u, v (T, N)``."""
    table, left, right = p.numpy(), _parts(u).numpy(), _parts(v).numpy()
    over_ranges(len(p), lambda lo, hi: _jacobian(table, left, right, lo, hi))
    return p


def _parts(x: Tensor) -> Tensor:
    if not x.is_complex():
        return x.unsqueeze(1).contiguous()
    return torch.view_as_real(x.resolve_conj()).mT.contiguous()
