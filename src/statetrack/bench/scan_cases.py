"""What the scan benchmark runs: operations, shapes, and the tensors of one of each.

Letters: B = rows, L = length, N = state size, K = maps in the dictionary; one head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from statetrack.scan import Backend, scan
from statetrack.scan.backends import Transitions
from statetrack.structures import ColumnOneHot, Dense, Diagonal, MixedOneHot, RoutedOneHot, Structure

_DICTIONARY = 32

Family = Literal["pd", "flash-pd", "diagonal"]
FAMILIES: tuple[Family, ...] = ("pd", "flash-pd", "diagonal")
"""One-hot with a map per token, one-hot with a map from a dictionary per token, diagonal."""


@dataclass(frozen=True)
class Op:
    """A recurrence.

    Attributes:
        family: of transitions.
        dtype: of the states.
        additive: whether ``b`` is added.
    """

    family: Family
    dtype: torch.dtype
    additive: bool

    @property
    def dtype_name(self) -> str:
        """Such as ``"float32"``."""
        return str(self.dtype).removeprefix("torch.")

    def __str__(self) -> str:
        return f"{self.family} {self.dtype_name}{' + b' if self.additive else ''}"


@dataclass(frozen=True)
class Shape:
    """``B`` rows of ``L`` tokens with ``N`` states."""

    rows: int
    length: int
    n: int

    @property
    def states(self) -> int:
        """Number of entries of the states."""
        return self.rows * self.length * self.n


@dataclass(frozen=True)
class Traffic:
    """Bytes that have to move: every argument read once, every result written once, into memory that is new.

    Attributes:
        read: from arguments, and for the backward pass from the states.
        written: to results.
    """

    read: int
    written: int

    @property
    def moved(self) -> int:
        """Both together."""
        return self.read + self.written

    @classmethod
    def forward(cls, op: Op, shape: Shape) -> Traffic:
        """Diagonal, inputs and maps in; states out."""
        one = shape.states * op.dtype.itemsize
        return cls((1 + op.additive) * one + _map_bytes(op, shape), one)

    @classmethod
    def both(cls, op: Op, shape: Shape) -> Traffic:
        """Forward, then backward: diagonal, states, cotangents and maps in; gradients of diagonal and inputs out."""
        one = shape.states * op.dtype.itemsize
        first = cls.forward(op, shape)
        return cls(first.read + 3 * one + _map_bytes(op, shape), first.written + (1 + op.additive) * one)


def _map_bytes(op: Op, shape: Shape) -> int:
    return {"pd": 2 * shape.states, "flash-pd": 8 * shape.rows * shape.length, "diagonal": 0}[op.family]


OPS = tuple(Op(*parts) for parts in product(FAMILIES, (torch.float32, torch.complex64), (False, True)))


@dataclass(frozen=True)
class Problem:
    """The tensors of one operation at one shape."""

    op: Op
    transitions: Transitions
    inputs: Tensor | None
    initial: Tensor
    cotangent: Tensor

    @classmethod
    def make(cls, op: Op, shape: Shape, seed: int = 0) -> Problem:
        """Random maps, and a diagonal of modulus just below 1, so that states neither vanish nor grow along the sequence."""
        generator = torch.Generator().manual_seed(seed)
        full = (shape.rows, shape.length, 1, shape.n)

        def normal(*size: int) -> Tensor:
            return torch.randn(size, dtype=op.dtype, generator=generator)

        value = normal(*full).sgn_().mul_(1 - 1e-5 * torch.rand(full, generator=generator))
        return cls(
            op,
            _transitions(op, value, generator),
            normal(*full) if op.additive else None,
            normal(shape.rows, 1, shape.n),
            normal(*full),
        )

    def run(self, backend: Backend) -> Tensor:
        """States, without a graph."""
        with torch.no_grad():
            return _states(self.transitions, self.inputs, self.initial, backend)

    def gradients(self, backend: Backend, *, cotangent: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """States, and the gradients of all arguments by name, for the cotangent of the states (default: the problem's own)."""
        given = {"value": self.transitions.values, "initial": self.initial}
        if self.inputs is not None:
            given["inputs"] = self.inputs
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in given.items()}
        states = _states(with_values(self.transitions, leaves["value"]), leaves.get("inputs"), leaves["initial"], backend)
        found = torch.autograd.grad(states, list(leaves.values()), self.cotangent if cotangent is None else cotangent)
        return states.detach(), dict(zip(leaves, found, strict=True))

    def double(self) -> Problem:
        """The same numbers in double precision."""
        wide = torch.complex128 if self.op.dtype.is_complex else torch.float64
        transitions = with_values(self.transitions, self.transitions.values.to(wide))
        inputs = None if self.inputs is None else self.inputs.to(wide)
        return Problem(replace(self.op, dtype=wide), transitions, inputs, self.initial.to(wide), self.cotangent.to(wide))

    def structure(self) -> Structure:
        """The transitions with a map for every token."""
        return self.transitions.expand() if isinstance(self.transitions, RoutedOneHot | MixedOneHot) else self.transitions

    def dense(self) -> Problem:
        """The same recurrence with its matrices written out."""
        return replace(self, transitions=Dense(self.structure().to_dense()))


def _states(transitions: Transitions, inputs: Tensor | None, initial: Tensor, backend: Backend) -> Tensor:
    if not isinstance(transitions, Dense):
        return scan(transitions, inputs, initial, backend=backend).states
    # Unbinding once keeps the backward pass linear in the length, which slicing at every step would not.
    h, states = initial.unsqueeze(-1), []
    added = None if inputs is None else inputs.unsqueeze(-1).unbind(1)
    for t, matrix in enumerate(transitions.matrix.unbind(1)):
        h = matrix @ h if added is None else matrix @ h + added[t]
        states.append(h)
    return torch.stack(states, dim=1).squeeze(-1)


def with_values(transitions: Transitions, values: Tensor) -> Transitions:
    """The same selection with other entries."""
    if isinstance(transitions, Dense):
        return Dense(values)
    if isinstance(transitions, RoutedOneHot | ColumnOneHot | Diagonal):
        return replace(transitions, value=values)
    raise TypeError(type(transitions))


def _transitions(op: Op, value: Tensor, generator: torch.Generator) -> Transitions:
    if op.family == "diagonal":
        return Diagonal(value)
    n = value.shape[-1]
    if op.family == "pd":
        return ColumnOneHot(torch.randint(n, value.shape, dtype=torch.int16, generator=generator), value)
    dictionary = torch.randint(n, (1, _DICTIONARY, n), dtype=torch.int16, generator=generator)
    return RoutedOneHot(dictionary, torch.randint(_DICTIONARY, value.shape[:-1], generator=generator), value)
