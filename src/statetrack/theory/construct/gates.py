"""Networks of one hidden GELU layer that compute tables exactly.

    gate(x) = [GELU(S (2 z - 1/2)) - GELU(S (2 z - 3/2))] / S ,   z = w x + b

Far from 0 GELU is ReLU to the last bit, so with S = 16 a gate is exactly a ramp from 0 at ``z <= 1/4`` to 1 at ``z >= 3/4``.
A conjunction has ``z = 1`` if all its literals hold and ``z <= 0`` otherwise: errors of its inputs below 1/4 do not pass.

Letters: z = evidence, S = steepness, w, b = weights and bias. The construction is the library's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from statetrack.theory.construct.tagger import blank

_STEEP = 16.0


@dataclass(frozen=True)
class Literal:
    """A linear function of the inputs that is 1 where something holds and at most 0 elsewhere.

    Attributes:
        weights: input columns with their weights.
        bias: what is added.
    """

    weights: tuple[tuple[int, float], ...]
    bias: float = 0.0


def any_of(columns: Sequence[int]) -> Literal:
    """That one of several input bits is set, of which at most one is."""
    return Literal(tuple((c, 1.0) for c in columns))


@dataclass
class Gates:
    """A network under construction; every gate writes to output columns of its own choice."""

    _units: list[tuple[dict[int, float], float, tuple[tuple[int, float], ...]]] = field(default_factory=list)

    def conjunction(self, literals: Sequence[Literal], output: int) -> None:
        """Add 1 to an output where all literals hold."""
        weights: dict[int, float] = {}
        for literal in literals:
            for column, weight in literal.weights:
                weights[column] = weights.get(column, 0.0) + weight
        bias = sum(literal.bias for literal in literals) - (len(literals) - 1)
        scaled = {column: 2 * _STEEP * weight for column, weight in weights.items()}
        for offset, sign in ((0.5, 1.0), (1.5, -1.0)):
            self._units.append((scaled, _STEEP * (2 * bias - offset), ((output, sign / _STEEP),)))

    def copy(self, column: int, output: int) -> None:
        """Add an input to an output: ``GELU(x) - GELU(-x) = x``."""
        for sign in (1.0, -1.0):
            self._units.append(({column: sign}, 0.0, ((output, sign),)))

    @property
    def size(self) -> int:
        """Hidden units."""
        return len(self._units)

    def write(self, network: nn.Sequential) -> None:
        """Set the weights of ``Linear, GELU, Linear``; hidden units beyond ``size`` stay silent."""
        blank(network)
        first, last = network[0], network[2]
        assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
        w, b, v = (np.zeros(tuple(p.shape)) for p in (first.weight, first.bias, last.weight))
        for i, (weights, bias, outputs) in enumerate(self._units):
            for column, weight in weights.items():
                w[i, column] = weight
            b[i] = bias
            for output, weight in outputs:
                v[output, i] = weight
        with torch.no_grad():
            for parameter, values in ((first.weight, w), (first.bias, b), (last.weight, v)):
                parameter.copy_(torch.as_tensor(values))
