"""Straight-through credit for a routed one-hot scan: gradients of the dictionary's and the router's one-hot choices.

With ``P`` the selection and ``A = P diag(D)`` (column) or ``diag(D) P`` (row), the gradient of ``P`` at one token is the outer
product ``Re(conj(u) v^T)`` of a cotangent ``u`` and a state ``v``; it is added up per dictionary entry and paired with every map.
Real and imaginary parts are kept as rows of small real buffers, because complex numbers do not vectorise.
"""

from __future__ import annotations

import numpy as np

from statetrack.scan.cpu.loops import _jit


@_jit
def _factors(column, is_complex, d_t, x, g, u, v):
    for q in range(len(g)):
        left = g[q] if column else np.conj(d_t[q]) * g[q]
        right = d_t[q] * x[q] if column else x[q]
        u[0, q], v[0, q] = left.real, right.real
        if is_complex:
            u[1, q], v[1, q] = left.imag, right.imag


@_jit
def _score(m, scattered, straight):
    """``sum_q scattered[m[q]] straight[q]``: the credit of the selection with map ``m``, for one part."""
    total = scattered[0] * 0
    for q in range(len(m)):
        total += scattered[m[q]] * straight[q]
    return total


@_jit
def routed_credit(
    column, full, is_complex, maps, route, d, states, x0, offsets, n_heads, n, g_b, g_selection, g_routing, start, stop
):
    """Fill ``g_routing (tokens * H, K)`` and add to ``g_selection (blocks, H, K, N, N)``.

    Work item ``block * H + h`` is one head of one block of sequences; blocks are a fixed number, so sums have a fixed order.
    """
    n_blocks, n_entries, n_parts = g_selection.shape[0], g_selection.shape[2], 2 if is_complex else 1
    n_sequences = len(offsets) - 1
    u, v = np.empty((n_parts, n), g_selection.dtype), np.empty((n_parts, n), g_selection.dtype)
    scattered, straight = (u, v) if column else (v, u)
    for item in range(start, stop):
        block, h = item // n_heads, item % n_heads
        for s in range(n_sequences * block // n_blocks, n_sequences * (block + 1) // n_blocks):
            for t in range(offsets[s], offsets[s + 1]):
                token = t * n_heads + h
                base = token * n
                before = base - n_heads * n
                first = (s * n_heads + h) * n
                x = states[before : before + n] if t > offsets[s] else x0[first : first + n]
                _factors(column, is_complex, d[base : base + n], x, g_b[base : base + n], u, v)
                k = route[token]
                for part in range(n_parts):
                    left, right = u[part], v[part]
                    if full:
                        for other in range(n_entries):
                            g_routing[token, other] += _score(maps[h * n_entries + other], scattered[part], straight[part])
                        for i in range(n):
                            row, weight = g_selection[block, h, k, i], left[i]
                            for q in range(n):
                                row[q] += weight * right[q]
                    else:
                        m = maps[h * n_entries + k]
                        g_routing[token, k] += _score(m, scattered[part], straight[part])
                        for q in range(n):
                            i, j = (m[q], q) if column else (q, m[q])
                            g_selection[block, h, k, i, j] += left[i] * right[j]
