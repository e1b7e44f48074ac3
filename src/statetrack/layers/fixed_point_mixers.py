"""Channel mixers of the fixed-point RNN: ``I - Q`` applied to a vector, from unconstrained entries.

    dplr          (1/r) sum_j alpha_j u_j u_j^T
    householder   I - (I - alpha_r u_r u_r^T) ... (I - alpha_1 u_1 u_1^T)
    kronecker     K_1 (x) K_2

Letters: N = size of the vector, r = rank, N = P Q with P the largest divisor up to the root of N. ``u`` has length 1, ``alpha``
lies in (0, 1), and K is divided by ``sqrt(|K|_1 |K|_inf)`` where that exceeds 1; it bounds the operator norm, and permutations
reach it. Source: Fixed-point RNNs (arXiv 2503.10799); how norms are bounded is a choice of this library.
"""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from statetrack.layers.delta_base import unit_length
from statetrack.layers.diagonal_generators import checked

Mixer = Literal["kronecker", "householder", "dplr"]


def _factors(n: int) -> tuple[int, int]:
    """``P <= Q`` with ``P Q = n``, as equal as can be."""
    p = next(p for p in range(math.isqrt(n), 0, -1) if n % p == 0)
    return p, n // p


def mixer_size(mixer: Mixer, n: int, rank: int) -> int:
    """How many entries the mixer of vectors of size ``n`` has. Raises ``InvalidInputError`` for an unknown mixer."""
    if checked("mixer", mixer, Mixer) == "kronecker":
        return sum(size * size for size in _factors(n))
    return rank * (n + 1)


def complement(mixer: Mixer, entries: Tensor, x: Tensor, rank: int) -> Tensor:
    """``(I - Q) x`` for entries ``(..., size)`` and vectors ``(..., N)``."""
    if mixer == "kronecker":
        p, q = _factors(x.shape[-1])
        left, right = entries.split([p * p, q * q], dim=-1)
        left, right = _bounded(left.unflatten(-1, (p, p))), _bounded(right.unflatten(-1, (q, q)))
        return (left @ x.unflatten(-1, (p, q)) @ right.mT).flatten(-2)
    u, alpha = entries.split([rank * x.shape[-1], rank], dim=-1)
    u, alpha = unit_length(u.unflatten(-1, (rank, -1))), alpha.sigmoid()
    if mixer == "dplr":
        seen = alpha * (u @ x.unsqueeze(-1)).squeeze(-1) / rank
        return (seen.unsqueeze(-2) @ u).squeeze(-2)
    y = x
    for j in range(rank):
        y = y - (alpha[..., j] * (u[..., j, :] * y).sum(-1)).unsqueeze(-1) * u[..., j, :]
    return x - y


def _bounded(matrix: Tensor) -> Tensor:
    """``matrix`` with operator norm at most 1."""
    bound = matrix.abs().sum(-2).amax(-1) * matrix.abs().sum(-1).amax(-1)
    return matrix * bound.clamp(min=1).rsqrt()[..., None, None]
