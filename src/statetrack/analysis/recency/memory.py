"""How long transitions alone keep a state, whatever writes into it and reads from it.

    Phi(t, s) = A_t ... A_{s+1} ;   kappa_bound = -log A_max ;   half-life = least d with |Phi(s + d, s)| <= 1/2

Letters: B = rows, L = tokens, H = heads, N = state size, ``A_max`` = largest modulus over tokens and entries. Influence through
diagonals in (0, 1) falls at least as fast as ``exp(-kappa_bound (t - s))``, up to a constant that the theorem does not give; it
says nothing as A_max -> 1. Source: "Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency
and Over-smoothing" (arXiv 2501.00658).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.structures import Diagonal, Structure

_ROUNDING = 1e-12
_LEAST = 1e-300


class MemoryCurve(NamedTuple):
    """Attributes:
    most: ``(B, H, L)``, log of the largest singular value of the product of the first 1, 2, ... transitions.
    least: of the smallest; ``-inf`` where the product is singular. Values below 1e-16 of the largest are rounding.
    """

    most: Tensor
    least: Tensor


def decay_rate(transitions: Structure) -> float:
    """``kappa_bound``, the rate of the theorem's bound; 0 means that it says nothing.

    Raises:
        InvalidInputError: transitions that are not diagonal.
    """
    if not isinstance(transitions, Diagonal):
        raise InvalidInputError(f"The bound is one of diagonal transitions; got {type(transitions).__name__}.")
    return max(0.0, -math.log(max(float(transitions.value.detach().abs().max()), _LEAST)))


def memory_half_life(transitions: Structure, *, start: int = 0) -> Tensor:
    """Tokens after which half of a state is left, ``(B, H, N)`` for diagonals and ``(B, H)`` for others.

    For diagonals: the least d for which the product of d moduli is at most 1/2. For others: for the largest singular value of
    the product. ``inf`` where that does not happen within the run, which for entries of 1 it never does.

    Args:
        transitions: batch dimensions ``(B, L, H)``.
        start: the token before which the state is looked at, from 0.

    Raises:
        InvalidInputError: a start outside the run.
    """
    length = transitions.batch_shape[1]
    if not 0 <= start < length:
        raise InvalidInputError(f"start must lie in 0..{length - 1}, got {start}.")
    if isinstance(transitions, Diagonal):
        # Sums of logs do not underflow.
        kept = transitions.value.detach()[:, start:].abs().double().log().cumsum(1).movedim(1, -1)
    else:
        kept = memory_curve(transitions[:, start:]).most
    halved = kept <= -math.log(2) + _ROUNDING
    first = halved.to(torch.int64).argmax(-1).double() + 1
    return torch.where(halved.any(-1), first, math.inf)


def memory_curve(transitions: Structure) -> MemoryCurve:
    """How much of a state, at most and at least, products of transitions keep, for transitions ``(B, L, H)`` of any structure."""
    dense = transitions.to_dense().detach()
    dense = dense.to(torch.complex128 if dense.is_complex() else torch.float64)
    product = torch.eye(dense.shape[-1], dtype=dense.dtype).expand_as(dense[:, 0])
    scale = torch.zeros(dense.shape[0], dense.shape[2], dtype=torch.float64)
    most, least = [], []
    for t in range(dense.shape[1]):
        product = dense[:, t] @ product
        values = torch.linalg.svdvals(product)
        most.append(scale + values[..., 0].log())
        least.append(scale + values[..., -1].log())
        top = values[..., 0].clamp(min=_LEAST)
        scale, product = scale + top.log(), product / top[..., None, None]
    return MemoryCurve(torch.stack(most, -1), torch.stack(least, -1))
