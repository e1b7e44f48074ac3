"""Hard choices from soft mixtures (PD-SSM): ``argmax`` of ``sum_k mix_k scores_k`` and its straight-through gradient.

Both walk over the tokens in chunks, so that the ``N x N`` mixtures of a chunk stay in cache and none outlives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

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
    g_scores, g_mix = torch.zeros_like(scores), torch.empty_like(mix)
    with torch.autocast(mix.device.type, enabled=False):
        _credit(scores, mix, u, v, dim, g_scores, g_mix)
    return g_scores, g_mix


def _credit(scores: Tensor, mix: Tensor, u: Tensor, v: Tensor, dim: int, g_scores: Tensor, g_mix: Tensor) -> None:
    n_tokens, n_heads, _ = mix.shape
    n = scores.shape[-1]
    for h in range(n_heads):
        flat_scores, flat_gradient = scores[h].flatten(1), g_scores[h].flatten(1)
        for part in _chunks(n_tokens, n):
            weights = mix[part, h]
            p = _mixture(scores[h], weights).softmax(dim)
            a, b = torch.view_as_real(u[part, h].resolve_conj()) if u.is_complex() else u[part, h].unsqueeze(-1), v[part, h]
            b = torch.view_as_real(b.resolve_conj()) if v.is_complex() else b.unsqueeze(-1)
            credit = a @ b.mT
            credit -= (p * credit).sum(dim, keepdim=True)
            jacobian = credit.mul_(p).flatten(1)
            flat_gradient.addmm_(weights.mT, jacobian)
            g_mix[part, h] = jacobian @ flat_scores.mT


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
