"""Selection times diagonal (PD): one non-zero entry per column, or per row.

Column form ``A = P diag(D)``: source ``q`` sends ``D[q]`` times its value to ``index[q]``, so sources may merge. Row form
``A = diag(D) P``: destination ``i`` reads ``D[i]`` times the value at ``index[i]``. Each form is the adjoint of the other,
and both are closed under multiplication (PD-SSM, arXiv 2509.22284).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from statetrack.structures.base import Structure
from statetrack.structures.functional_graph import one_hot_eigenvalues


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """``x[..., index]`` with broadcast batch dimensions."""
    shape = torch.broadcast_shapes(x.shape[:-1], index.shape[:-1])
    return x.expand(*shape, x.shape[-1]).gather(-1, index.expand(*shape, index.shape[-1]).long())


def _scatter_add(x: Tensor, index: Tensor) -> Tensor:
    """``z[..., index[q]] += x[..., q]`` with broadcast batch dimensions."""
    shape = torch.broadcast_shapes(x.shape, index.shape)
    x, index = x.expand(shape), index.expand(shape).long()
    return torch.zeros_like(x, memory_format=torch.contiguous_format).scatter_add(-1, index, x)


@dataclass(frozen=True, eq=False)
class _OneHot(Structure):
    """What both forms share.

    Attributes:
        index: ``(..., N)`` integer map.
        value: ``(..., N)`` real or complex entries.
    """

    index: Tensor
    value: Tensor
    event_dims: ClassVar[dict[str, int]] = {"index": 1, "value": 1}

    @property
    def state_size(self) -> int:
        return self.value.shape[-1]

    @property
    def values(self) -> Tensor:
        return self.value

    def eigenvalues(self) -> Tensor:
        """Exact up to one root per cycle of the map: a cycle of length ``c`` gives the ``c``-th roots of its product, the
        rest 0."""
        return one_hot_eigenvalues(self.index, self.value)

    @classmethod
    def identity(
        cls, state_size: int, batch_shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: Any = None
    ) -> Self:
        shape = (*batch_shape, state_size)
        index = torch.arange(state_size, device=device).expand(shape)
        return cls(index, torch.ones(shape, dtype=dtype, device=device))


class ColumnOneHot(_OneHot):
    """``A[index[q], q] = value[q]``: exactly one entry per column; applying it scatters."""

    def compose(self, earlier: Self) -> Self:
        return type(self)(_gather(self.index, earlier.index), _gather(self.value, earlier.index) * earlier.value)

    def apply(self, h: Tensor) -> Tensor:
        return _scatter_add(self.value * h, self.index)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return self.value.conj() * _gather(g, self.index)

    def to_dense(self) -> Tensor:
        return torch.nn.functional.one_hot(self.index.long(), self.state_size).mT * self.value.unsqueeze(-2)

    def adjoint(self) -> RowOneHot:
        """``A^H``, a row form with the same map."""
        return RowOneHot(self.index, self.value.conj())


class RowOneHot(_OneHot):
    """``A[i, index[i]] = value[i]``: exactly one entry per row; applying it gathers."""

    def compose(self, earlier: Self) -> Self:
        return type(self)(_gather(earlier.index, self.index), self.value * _gather(earlier.value, self.index))

    def apply(self, h: Tensor) -> Tensor:
        return self.value * _gather(h, self.index)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        return _scatter_add(self.value.conj() * g, self.index)

    def to_dense(self) -> Tensor:
        return torch.nn.functional.one_hot(self.index.long(), self.state_size) * self.value.unsqueeze(-1)

    def adjoint(self) -> ColumnOneHot:
        """``A^H``, a column form with the same map."""
        return ColumnOneHot(self.index, self.value.conj())
