"""Phases picked from finitely many: what turns a diagonal layer of modulus 1 into a finite machine.

    D = r_q ,   q = argmax_k l_k(u) ,   r_k = exp(2 pi i k / Q)

Letters: Q = ``levels``, ``l (..., Q)`` logits, ``r`` the Q-th roots of unity. Forward values are exact roots; gradients are those
of the mean root under ``softmax(s l)``, straight through. A choice learns where a rounded angle does not: an angle has to pass
through all roots between two, and its gradient grows with the length of the word. Annealed, D is that mean root itself, with an s
that grows until one root is picked: small groups of tokens that have to agree find each other while choices are soft, and keep
each other when they harden slowly. Source: this library's; straight-through choice as in Flash PD-SSM (arXiv 2605.19150).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.layers.precision import at_least_float32
from statetrack.scan import straight_through

_SHARPEST = 30.0
"""What s has grown by when a mixture becomes a pick."""

_BLEND_FROM = 0.75
"""Progress at which the mean is as sharp as it gets."""

_SHARPNESS = 4.0
"""s: logits of a fresh network are small; sharpened, the surrogate's mean root is not near 0."""


def checked_levels(levels: int | None) -> int | None:
    """``levels``, if there can be that many phases. Raises ``InvalidInputError``."""
    if levels is not None and levels < 2:
        raise InvalidInputError(f"phase_levels must be at least 2, or None for any phase; got {levels}.")
    return levels


def roots_of_unity(levels: int, like: Tensor) -> Tensor:
    """``(Q,)`` complex, computed in double precision, in the precision and on the device of ``like``, which is real."""
    turns = 2 * math.pi / levels * torch.arange(levels, dtype=torch.float64, device=like.device)
    return torch.polar(torch.ones_like(turns), turns).to(torch.complex128 if like.dtype == torch.float64 else torch.complex64)


def choose_root(logits: Tensor) -> Tensor:
    """Roots of unity ``(...)``, complex, from logits ``(..., Q)``."""
    logits = at_least_float32(logits)
    roots = torch.view_as_real(roots_of_unity(logits.shape[-1], logits))
    return torch.view_as_complex(straight_through(logits, -1, 1 / _SHARPNESS) @ roots)


def mix_roots(logits: Tensor, sharpening: Tensor) -> Tensor:
    """Mean roots of unity ``(...)``, complex, under ``softmax(s logits)`` of ``(..., Q)``; ``s`` grows with ``sharpening ()``."""
    logits = at_least_float32(logits)
    weights = (logits * (_SHARPNESS * _SHARPEST**sharpening)).softmax(-1)
    return torch.view_as_complex((weights @ torch.view_as_real(roots_of_unity(logits.shape[-1], logits))).contiguous())


def harden(logits: Tensor, progress: Tensor) -> Tensor:
    """From mean roots to picked ones: ``progress ()`` from 0 to 1 sharpens the mean first, then blends it with the pick.

    Blending matters: where two logits are as good as equal, the pick is far from the mean however sharp that is.
    """
    picked = choose_root(logits)
    mixed = mix_roots(logits, (progress / _BLEND_FROM).clamp(max=1))
    share = ((progress - _BLEND_FROM) / (1 - _BLEND_FROM)).clamp(0, 1)
    return torch.where(progress < 1, mixed + share * (picked - mixed), picked)


def turned_by_roots(h: Tensor, first: Tensor, levels: int) -> Tensor:
    """``h``, products of ``first`` and Q-th roots of unity up to rounding, without the rounding; gradients are those of ``h``.

    Args:
        h: ``(...)`` complex; zeros stay.
        first: what was turned, of a shape that broadcasts.
        levels: Q.
    """
    with torch.no_grad():
        turns = (torch.angle(h * first.conj()) * (levels / (2 * math.pi))).round().long() % levels
        exact = torch.where(h == 0, h, first * roots_of_unity(levels, h.real)[turns])
    return h + (exact - h).detach()
