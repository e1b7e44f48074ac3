"""Diagonal transitions, real or complex."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from statetrack.structures.base import Structure


@dataclass(frozen=True, eq=False)
class Diagonal(Structure):
    """``A = diag(value)``.

    Attributes:
        value: ``(..., N)`` real or complex.
    """

    value: Tensor
    event_dims: ClassVar[dict[str, int]] = {"value": 1}

    @property
    def state_size(self) -> int:
        return self.value.shape[-1]

    @property
    def values(self) -> Tensor:
        return self.value

    def compose(self, earlier: Self) -> Self:
        return type(self)(self.value * earlier.value)

    def apply(self, h: Tensor) -> Tensor:
        return self.value * h

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return self.value.conj() * g

    def to_dense(self) -> Tensor:
        return torch.diag_embed(self.value)

    def eigenvalues(self) -> Tensor:
        return self.value if self.value.is_complex() else torch.complex(self.value, torch.zeros_like(self.value))

    @classmethod
    def identity(
        cls, state_size: int, batch_shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Self:
        return cls(torch.ones(*batch_shape, state_size, dtype=dtype, device=device))
