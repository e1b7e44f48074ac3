"""What a transition structure is: a family of matrices that is closed under multiplication, stored as a few tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Structure(ABC):
    """A batch of ``N x N`` matrices of one family.

    Every field is a tensor with the same leading batch dimensions, followed by ``event_dims[field]`` dimensions that hold
    one matrix.
    The laws (closure, associativity, identity, ``apply`` = dense product, adjoint identity) are checked by
    ``statetrack.testing.check_structure``.
    """

    event_dims: ClassVar[dict[str, int]]

    # -- what a family defines -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def state_size(self) -> int:
        """``N``: the matrices are ``N x N``."""

    @property
    @abstractmethod
    def values(self) -> Tensor:
        """The tensor of entries: gives the dtype and the device, and receives gradients."""

    @abstractmethod
    def compose(self, earlier: Self) -> Self:
        """The product ``self @ earlier``: ``earlier`` acts on the state first."""

    @abstractmethod
    def apply(self, h: Tensor) -> Tensor:
        """``A h`` for states ``(..., N)``; batch dimensions broadcast."""

    @abstractmethod
    def apply_adjoint(self, g: Tensor) -> Tensor:
        """``A^H g`` for cotangents ``(..., N)``: the conjugate transpose, as gradients flow back through ``apply``."""

    @abstractmethod
    def to_dense(self) -> Tensor:
        """``(..., N, N)`` with ``[..., i, j]`` = row ``i``, column ``j``."""

    @abstractmethod
    def eigenvalues(self) -> Tensor:
        """``(..., N)`` complex eigenvalues with multiplicity, in no particular order."""

    @classmethod
    @abstractmethod
    def identity(
        cls, state_size: int, batch_shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Self:
        """Identity matrices of the family."""

    # -- what follows from it --------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        """The leading dimensions."""
        values = self.values
        return values.shape[: values.ndim - self.event_dims[self._values_field()]]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the entries."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return self.values.device

    def identity_like(self, batch_shape: Iterable[int]) -> Self:
        """Identities of this size, dtype and device."""
        return type(self).identity(self.state_size, batch_shape, dtype=self.dtype, device=self.device)

    def map_batch(self, change: Callable[[Tensor, int], Tensor]) -> Self:
        """Rearrange the batch dimensions: ``change(tensor, n_event_dims)`` is called on every field."""
        return type(self)(**{f.name: change(getattr(self, f.name), self.event_dims[f.name]) for f in fields(self)})

    def __getitem__(self, index: Any) -> Self:
        """Index the batch dimensions, as in ``transitions[:, t]``."""
        return self.map_batch(lambda tensor, _: tensor[index])

    @classmethod
    def cat(cls, parts: list[Self], dim: int) -> Self:
        """Concatenate along a batch dimension, counted from the front."""
        return cls(**{f.name: torch.cat([getattr(p, f.name) for p in parts], dim) for f in fields(cls)})

    def _values_field(self) -> str:
        return next(f.name for f in fields(self) if getattr(self, f.name) is self.values)
