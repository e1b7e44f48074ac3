"""Diagonal plus low-rank transitions: what a delta rule does to its state.

    A = diag(d) + U W^H ;   A_2 A_1 = diag(d_2 d_1) + [A_2 U_1, U_2] [W_1, conj(d_1) W_2]^H

Letters: N = state size, R = rank, U = ``left``, W = ``right``. A product has the sum of the ranks, at most N. Products of
generalised Householder matrices ``I - beta k k^H`` are the case d = 1. Source: DeltaNet (arXiv 2406.06484), DeltaProduct (arXiv
2502.10297).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from statetrack.structures.base import Structure


@dataclass(frozen=True, eq=False)
class DiagonalPlusLowRank(Structure):
    """``A = diag(diagonal) + left @ right^H``.

    Attributes:
        diagonal: ``(..., N)`` real or complex.
        left: ``(..., N, R)``; R may be 0.
        right: ``(..., N, R)``.
    """

    diagonal: Tensor
    left: Tensor
    right: Tensor
    event_dims: ClassVar[dict[str, int]] = {"diagonal": 1, "left": 2, "right": 2}

    @property
    def state_size(self) -> int:
        return self.diagonal.shape[-1]

    @property
    def rank(self) -> int:
        """``R``, the number of columns that are stored: the rank of ``A - diag(d)`` is at most that."""
        return self.left.shape[-1]

    @property
    def values(self) -> Tensor:
        return self.diagonal

    def compose(self, earlier: Self) -> Self:
        diagonal = self.diagonal * earlier.diagonal
        scaled = self.diagonal.unsqueeze(-1) * earlier.left
        left = torch.cat([scaled + self.left @ (self.right.mH @ earlier.left), self.left], dim=-1)
        right = torch.cat([earlier.right, earlier.diagonal.conj().unsqueeze(-1) * self.right], dim=-1)
        product = type(self)(diagonal, left, right)
        return product if product.rank <= self.state_size else product._as_full_rank()

    def _as_full_rank(self) -> Self:
        """The same matrices as ``0 + A I^H``, which has rank N however many factors went into it."""
        dense = self.to_dense()
        return type(self)(torch.zeros_like(self.diagonal), dense, torch.eye(self.state_size).to(dense).expand_as(dense))

    def apply(self, h: Tensor) -> Tensor:
        return self.diagonal * h + (self.left @ (self.right.mH @ h.unsqueeze(-1))).squeeze(-1)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return self.diagonal.conj() * g + (self.right @ (self.left.mH @ g.unsqueeze(-1))).squeeze(-1)

    def to_dense(self) -> Tensor:
        return torch.diag_embed(self.diagonal) + self.left @ self.right.mH

    def eigenvalues(self) -> Tensor:
        """Where every diagonal is one number d: d, N - R times, and d plus the eigenvalues of ``W^H U``, in O(N R^2)."""
        d = self.diagonal[..., :1]
        if self.rank > self.state_size or not bool((self.diagonal == d).all()):
            return torch.linalg.eigvals(self.to_dense())
        moved = d + torch.linalg.eigvals(self.right.mH @ self.left)
        return torch.cat([d.expand(*d.shape[:-1], self.state_size - self.rank).to(moved.dtype), moved], dim=-1)

    @classmethod
    def identity(
        cls, state_size: int, batch_shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Self:
        """Identity matrices, of rank 0."""
        none = torch.zeros(*batch_shape, state_size, 0, dtype=dtype, device=device)
        return cls(torch.ones(*batch_shape, state_size, dtype=dtype, device=device), none, none)
