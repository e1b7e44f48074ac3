"""How alike the theorem forces the states of one layer to be, beside how alike they are.

    h_t = A_t h_{t-1} + D_t b_t per entry, h_0 in [m, M] ,   0 <= A_t, 0 <= D_t ,   (i) A_t + D_t <= 1 ,   (ii) m <= 0 <= M
    |h_t - h_s| <= (1 - Phi(t, s)) (M - m) ,   Phi(t, s) = A_t ... A_{s+1} ,   m = min b ,  M = max b
    published form, h_0 = 0:  max_ts |h_t - h_s|_inf <= (1 - A_min^(T-1)) max_ts |b_t - b_s|_inf

Letters: B = rows, T = tokens, C = entries of the state over all heads, D = weights of the writes. States stay in [m, M] since
each is a combination of values in it whose weights sum to at most 1; both terms of their difference lie in ``(1 - Phi) [m, M]``.
It is a statement about the spread of the states of one layer, neither about ranks nor about depth, and it is weaker for longer
sequences. A write alone does not say what D and b are: unless they are given, ``D = 1 - A`` is taken, with which (i) holds with
equality. Source: arXiv 2501.00658 for the published form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import has_states, unroll
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.structures import Diagonal, Structure


@dataclass(frozen=True)
class Contraction:
    """The bound for given gates, weights and drives.

    Attributes:
        pairwise: ``(B, T, T, C)`` bound of ``|h_t - h_s|`` for s < t, 0 elsewhere; None where it was not asked for.
        published: ``(B,)``, bound of the largest difference over pairs and entries, in the published form.
        decay_min: ``(B,)``, ``A_min`` over tokens and entries.
        share_i: share of (token, entry) pairs with ``A + D <= 1``.
        holds_ii: whether every entry's drives have 0 between their least and their largest.
    """

    pairwise: Tensor | None
    published: Tensor
    decay_min: Tensor
    share_i: float
    holds_ii: bool

    @property
    def applies(self) -> bool:
        """Whether both assumptions hold; where they do not, nothing is bounded."""
        return self.share_i == 1.0 and self.holds_ii


def contraction_bound(decay: Tensor, weight: Tensor, drive: Tensor, *, pairwise: bool = True) -> Contraction:
    """The bounds on states that start at 0.

    Args:
        decay: ``A (B, T, C)`` in [0, 1].
        weight: ``D (B, T, C)``, not negative.
        drive: ``b (B, T, C)``.
        pairwise: form the ``(B, T, T, C)`` bound.

    Raises:
        InvalidInputError: shapes that differ, or gates and weights out of range.
    """
    if decay.ndim != 3 or not decay.shape == weight.shape == drive.shape:
        raise InvalidInputError(
            "decay, weight and drive need one shape (B, T, C); got "
            f"{tuple(decay.shape)}, {tuple(weight.shape)}, {tuple(drive.shape)}."
        )
    if bool(((decay < 0) | (decay > 1) | (weight < 0)).any()):
        raise InvalidInputError("decays must lie in [0, 1] and weights must not be negative.")
    low, high = drive.amin(1), drive.amax(1)
    pairs = None
    if pairwise:
        pairs = (1 - _between(decay)) * (high - low).unsqueeze(1).unsqueeze(1)
        pairs = pairs * torch.ones(decay.shape[1], decay.shape[1], dtype=decay.dtype).tril(-1)[..., None]
    least = decay.amin((1, 2))
    return Contraction(
        pairwise=pairs,
        published=(1 - least ** (decay.shape[1] - 1)) * (high - low).amax(-1),
        decay_min=least,
        share_i=float((decay + weight <= 1 + 4 * torch.finfo(decay.dtype).eps).double().mean()),
        holds_ii=bool(((low <= 0) & (high >= 0)).all()),
    )


def _between(decay: Tensor) -> Tensor:
    """``Phi (B, T, T, C)`` for s <= t from sums of logs; an exact 0 in between gives 0."""
    logs = torch.where(decay > 0, decay, 1.0).log().cumsum(1)
    zeros = (decay == 0).cumsum(1)
    phi = (logs.unsqueeze(2) - logs.unsqueeze(1)).clamp(max=0).exp()
    return torch.where(zeros.unsqueeze(2) == zeros.unsqueeze(1), phi, 0.0)


@dataclass(frozen=True)
class SmoothingBound:
    """The bound for one layer on one input, with ``D = 1 - A``, beside what was measured; each is a mean over rows.

    Attributes:
        bound: of the largest difference between two states in any entry, in the pairwise form.
        published: of the same, in the published form, which takes the least decay of all entries for each of them.
        measured: that difference.
        ratio: largest share of its own bound that any pair of states reaches in any entry; at most 1.
        decay_min: least entry of the transitions.
        decay_max: largest entry.
        held_entries: share of the state's entries whose decay is 1 at some token that writes; they have no bound and are left
            out.
    """

    bound: float
    published: float
    measured: float
    ratio: float
    decay_min: float
    decay_max: float
    held_entries: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dict(vars(self))


def smoothing_bound(layer: Layer, x: Tensor) -> SmoothingBound | None:
    """The bound and the measured spread of a layer's states on ``x (B, T, d_model)``; None where the theorem says nothing.

    It speaks of layers that are linear in a real state, with diagonal transitions in [0, 1].
    """
    if not has_states(layer) or not layer.traits.linear or x.shape[1] < 2:
        return None
    run = unroll(layer, x)
    gates = run.transitions
    if not isinstance(gates, Diagonal) or run.h.is_complex() or bool(((gates.value < 0) | (gates.value > 1)).any()):
        return None
    decay = gates.value.unsqueeze(-1).expand_as(run.writes).flatten(2)  # (B, T, C)
    writes, h = run.writes.flatten(2), run.h.flatten(2)
    weight = 1 - decay
    held = ((weight == 0) & (writes != 0)).any(1)  # (B, C)
    free = ~held.any(0)
    if not bool(free.any()):
        return SmoothingBound(float("inf"), float("inf"), _spread(h), float("nan"), float(decay.min()), float(decay.max()), 1.0)
    decay, writes, weight, h = decay[..., free], writes[..., free], weight[..., free], h[..., free]
    drive = torch.where(weight > 0, writes / torch.where(weight > 0, weight, 1.0), 0.0)
    start = h[:, 0]
    low = torch.minimum(drive.amin(1), start).clamp(max=0)
    high = torch.maximum(drive.amax(1), start).clamp(min=0)
    bound, measured, ratio = _largest(decay, h[:, 1:], high - low)
    published = (1 - decay.amin((1, 2)) ** (decay.shape[1] - 1)) * (high - low).amax(-1)
    return SmoothingBound(
        bound,
        float(published.mean()),
        measured,
        ratio,
        float(gates.value.min()),
        float(gates.value.max()),
        float(1 - free.double().mean()),
    )


def _largest(decay: Tensor, h: Tensor, width: Tensor) -> tuple[float, float, float]:
    """Means over rows of the largest pairwise bound, the largest difference, and the largest ratio of the two; one t at a
    time."""
    n_rows = len(h)
    best, seen, ratio = (torch.zeros(n_rows, dtype=h.dtype) for _ in range(3))
    # Phi(t, s) for all s < t: each step multiplies by one more gate.
    phi = torch.ones_like(h)
    for t in range(1, h.shape[1]):
        phi[:, :t] = phi[:, :t] * decay[:, t : t + 1]
        limit = (1 - phi[:, :t]) * width.unsqueeze(1)
        apart = (h[:, t : t + 1] - h[:, :t]).abs()
        best = torch.maximum(best, limit.amax((1, 2)))
        seen = torch.maximum(seen, apart.amax((1, 2)))
        share = apart / torch.where(limit > 0, limit, 1.0)
        ratio = torch.maximum(ratio, torch.where(limit > 0, share, 0.0).amax((1, 2)))
    return float(best.mean()), float(seen.mean()), float(ratio.mean())


def _spread(h: Tensor) -> float:
    return float((h[:, 1:].amax(1) - h[:, 1:].amin(1)).amax(-1).mean())


def channel_diversity(transitions: Structure) -> Tensor:
    """Largest minus least modulus of every diagonal entry over the tokens of a row, ``(B, H, N)``; 0 for fixed gates.

    Raises:
        InvalidInputError: transitions that are not diagonal.
    """
    if not isinstance(transitions, Diagonal):
        raise InvalidInputError(f"Channels have a range of their own in diagonal transitions; got {type(transitions).__name__}.")
    moduli = transitions.value.detach().abs()
    return moduli.amax(1) - moduli.amin(1)
