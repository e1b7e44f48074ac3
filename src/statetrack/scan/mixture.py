"""Hard choices from soft mixtures (PD-SSM): ``argmax`` of ``sum_k mix_k scores_k`` and its straight-through gradient.

Both walk over the tokens in chunks, so that the ``N x N`` mixtures of a chunk stay in cache and none outlives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from statetrack.scan.backends import NUMBA_MISSING

_CHUNK_ENTRIES = 1 << 18


def _chunks(n_tokens: int, n: int) -> Iterator[slice]:
    size = max(1, _CHUNK_ENTRIES // (n * n))
    return (slice(start, start + size) for start in range(0, n_tokens, size))


def _mixture(scores: Tensor, mix: Tensor) -> Tensor:
    """``(T, N, N)`` mixtures of one head from ``scores (K, N, N)`` and ``mix (T, K)``."""
    return (mix @ scores.flatten(1)).unflatten(1, scores.shape[1:])


@torch.library.custom_op("statetrack::mixture_choice", mutates_args=())
def mixture_choice(scores: Tensor, mix: Tensor, dim: int) -> Tensor:
    """``(T, H, N)`` int16 maps from ``scores (H, K, N, N)`` and ``mix (T, H, K)``, chosen along axis ``dim`` (-2 or -1)."""
    if mix.device.type == "cpu" and not NUMBA_MISSING:
        from statetrack.scan.cpu.mixture_loops import choose

        return choose(scores.detach(), mix.detach(), dim)
    n_tokens, n_heads, _ = mix.shape
    n = scores.shape[-1]
    out = torch.empty(n_tokens, n_heads, n, dtype=torch.int16, device=mix.device)
    for h in range(n_heads):
        for part in _chunks(n_tokens, n):
            out[part, h] = _mixture(scores[h], mix[part, h]).argmax(dim).to(torch.int16)
    return out


@torch.library.custom_op("statetrack::mixture_credit", mutates_args=())
def mixture_credit(scores: Tensor, mix: Tensor, u: Tensor, v: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Gradients of ``scores`` and ``mix`` when the choice receives ``Re(conj(u) v^T)`` from ``u, v (T, H, N)``."""
    with torch.autocast(mix.device.type, enabled=False):
        if dim == -2:
            return _credit(scores, mix, u, v)
        g_scores, g_mix = _credit(scores.mT, mix, v, u)
        return g_scores.mT.contiguous(), g_mix


def _credit(scores: Tensor, mix: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The same for choices along axis -2."""
    n_tokens, n_heads, _ = mix.shape
    g_scores, g_mix = torch.zeros(scores.shape, dtype=scores.dtype, device=scores.device), torch.empty_like(mix)
    for h in range(n_heads):
        flat_scores, flat_gradient = scores[h].flatten(1), g_scores[h].flatten(1)
        for part in _chunks(n_tokens, scores.shape[-1]):
            weights = mix[part, h]
            p = _mixture(scores[h], weights).softmax(-2)
            jacobian = _jacobian(p, u[part, h], v[part, h]).flatten(1)
            flat_gradient.addmm_(weights.mT, jacobian)
            g_mix[part, h] = jacobian @ flat_scores.mT
    return g_scores, g_mix


def _jacobian(p: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """``p * (G - <p, G>)`` per column, with ``G = Re(conj(u) v^T)``, for a softmax ``p (T, N, N)``, which is consumed."""
    if p.device.type == "cpu" and not NUMBA_MISSING:
        from statetrack.scan.cpu.mixture_loops import jacobian_

        return jacobian_(p, u, v)
    credit = _outer(u, v)
    credit -= (p * credit).sum(-2, keepdim=True)
    return credit.mul_(p)


def _outer(u: Tensor, v: Tensor) -> Tensor:
    """``Re(conj(u) v^T)`` of every token."""
    if not u.is_complex():
        return u.unsqueeze(-1) * v.unsqueeze(-2)
    return (u.real.unsqueeze(-1) * v.real.unsqueeze(-2)).addcmul_(u.imag.unsqueeze(-1), v.imag.unsqueeze(-2))


@torch.library.custom_op("statetrack::mixture_lift", mutates_args=())
def mixture_lift(scores: Tensor, mix: Tensor, v: Tensor, dim: int) -> Tensor:
    """Zeros shaped like ``v (T, H, N)``; a cotangent ``u`` that reaches them is credited to the choice that ``v`` went
    through."""
    return torch.zeros_like(v)


@mixture_choice.register_fake
def _(scores, mix, dim):  # type: ignore[no-untyped-def]
    return mix.new_empty(*mix.shape[:2], scores.shape[-1], dtype=torch.int16)


@mixture_credit.register_fake
def _(scores, mix, u, v, dim):  # type: ignore[no-untyped-def]
    return torch.empty_like(scores), torch.empty_like(mix)


@mixture_lift.register_fake
def _(scores, mix, v, dim):  # type: ignore[no-untyped-def]
    return torch.zeros_like(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    scores, mix, v, ctx.dim = inputs
    ctx.save_for_backward(scores, mix, v)


def _gradients(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
    scores, mix, v = ctx.saved_tensors
    g_scores, g_mix = mixture_credit(scores, mix, u, v, ctx.dim)
    return g_scores, g_mix, None, None


mixture_lift.register_autograd(_gradients, setup_context=_save)
