"""Dense and block-diagonal transitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.structures.base import Structure


@dataclass(frozen=True, eq=False)
class Dense(Structure):
    """Any ``N x N`` matrix.

    Attributes:
        matrix: ``(..., N, N)`` real or complex.
    """

    matrix: Tensor
    event_dims: ClassVar[dict[str, int]] = {"matrix": 2}

    @property
    def state_size(self) -> int:
        return self.matrix.shape[-1]

    @property
    def values(self) -> Tensor:
        return self.matrix

    def compose(self, earlier: Self) -> Self:
        return type(self)(self.matrix @ earlier.matrix)

    def apply(self, h: Tensor) -> Tensor:
        return (self.matrix @ h.unsqueeze(-1)).squeeze(-1)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return (self.matrix.mH @ g.unsqueeze(-1)).squeeze(-1)

    def to_dense(self) -> Tensor:
        return self.matrix

    def eigenvalues(self) -> Tensor:
        return torch.linalg.eigvals(self.matrix)

    @classmethod
    def identity(
        cls, state_size: int, batch_shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Self:
        return cls(torch.eye(state_size, dtype=dtype, device=device).expand(*batch_shape, state_size, state_size))


@dataclass(frozen=True, eq=False)
class BlockDiagonal(Structure):
    """Square blocks of one size along the diagonal; state ``j * b + r`` is row ``r`` of block ``j``.

    Attributes:
        blocks: ``(..., N / b, b, b)`` real or complex.
    """

    blocks: Tensor
    event_dims: ClassVar[dict[str, int]] = {"blocks": 3}

    @property
    def state_size(self) -> int:
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    @property
    def block_size(self) -> int:
        """``b``."""
        return self.blocks.shape[-1]

    @property
    def values(self) -> Tensor:
        return self.blocks

    def compose(self, earlier: Self) -> Self:
        return type(self)(self.blocks @ earlier.blocks)

    def apply(self, h: Tensor) -> Tensor:
        return self._blockwise(self.blocks, h)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return self._blockwise(self.blocks.mH, g)

    @staticmethod
    def _blockwise(blocks: Tensor, h: Tensor) -> Tensor:
        split = h.unflatten(-1, (blocks.shape[-3], blocks.shape[-1])).unsqueeze(-1)
        return (blocks @ split).squeeze(-1).flatten(-2)

    def to_dense(self) -> Tensor:
        n_blocks, b = self.blocks.shape[-3], self.block_size
        dense = self.blocks.new_zeros(*self.batch_shape, n_blocks, b, n_blocks, b)
        each = torch.arange(n_blocks, device=self.device)
        # Advanced indices on both sides of a slice move to the front, hence the permuted source.
        dense[..., each, :, each, :] = self.blocks.movedim(-3, 0)
        return dense.flatten(-4, -3).flatten(-2)

    def eigenvalues(self) -> Tensor:
        return torch.linalg.eigvals(self.blocks).flatten(-2)

    def identity_like(self, batch_shape: Iterable[int]) -> Self:
        return self.identity(self.state_size, batch_shape, dtype=self.dtype, device=self.device, block_size=self.block_size)

    @classmethod
    def identity(
        cls,
        state_size: int,
        batch_shape: Iterable[int] = (),
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
        block_size: int = 1,
    ) -> Self:
        """Identity matrices. Raises ``InvalidInputError`` unless ``block_size`` divides ``state_size``."""
        if state_size % block_size:
            raise InvalidInputError(f"block_size {block_size} does not divide state_size {state_size}.")
        eye = torch.eye(block_size, dtype=dtype, device=device)
        return cls(eye.expand(*batch_shape, state_size // block_size, block_size, block_size))
