"""A model in pieces whose states evolve on their own: groups of heads of a single layer, or a whole stack.

    z = constant(token) + sum over pieces of what they add ;   scores = tail(z)

``z`` is what leaves the last layer (and its residual path), before the last norm. Letters: B = batch of cases, E = ``d_model``,
F = numbers in a state.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from statetrack.analysis.certificate.intervals import Interval, cat
from statetrack.analysis.certificate.modules import bounds
from statetrack.analysis.certificate.selective import SelectiveBounds
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.layers.selective import SelectiveLayer
from statetrack.models import Block, Tagger

IntArray = npt.NDArray[np.int64]

_LARGEST = 1e30
"""Well below the largest float32 number, so that no product of two of them overflows unnoticed."""


class Step(NamedTuple):
    """What may follow some cases.

    Attributes:
        rows: ``(B',)`` the case that each successor belongs to.
        state: ``(B', F)``.
        z: ``(B', E)`` what the piece adds to ``z``.
    """

    rows: IntArray
    state: Interval
    z: Interval


class Component:
    """A group of heads of the only layer of a model, or all layers.

    Args:
        model: in evaluation mode, with weights in float32.
        heads: the group; None for the whole model, whose ``z`` then holds all of it.

    Raises:
        Undecided: a layer for which there are no bounds.
    """

    def __init__(self, model: Tagger, heads: tuple[int, ...] | None = None) -> None:
        self.heads = heads
        self.blocks = blocks_of(model)
        self.layers = [SelectiveBounds(_selective(block), heads) for block in self.blocks]
        self.embedding = Interval.point(model.embedding.weight)
        self.initial = cat([layer.initial for layer in self.layers])

    @property
    def finite(self) -> bool:
        """Whether the piece has finitely many states."""
        return all(layer.finite for layer in self.layers)

    @property
    def separable(self) -> bool:
        """Whether the model falls into groups of heads."""
        return len(self.layers) == 1 and self.layers[0].separable

    def step(self, tokens: IntArray, state: Interval) -> Step:
        """One token ``(B,)`` from states ``(B, F)``.

        Raises:
            Undecided: a choice inside the model is not settled, or numbers may leave the range of float32.
        """
        x, rows, first = self.embedding[tokens], np.arange(len(tokens)), 0
        states: list[Interval] = []
        for i, (block, layer) in enumerate(zip(self.blocks, self.layers, strict=True)):
            u, own = enter(block, x, 0), state[:, first : first + layer.size]
            first += layer.size
            try:
                moved = layer.advance(u, own[rows])
            except Undecided as reason:
                raise Undecided(f"in layer {i + 1}, {reason}") from None
            rows, x, u = rows[moved.rows], x[moved.rows], u[moved.rows]
            states = [*(before[moved.rows] for before in states), moved.state]
            z = layer.read(u, moved.state)
            if self.heads is None:
                z = z + layer.constant(u)
                z = x + z if block.residual else z
            if not max(z.size.max(initial=0), moved.state.size.max(initial=0)) < _LARGEST:
                raise Undecided(f"numbers in layer {i + 1} may leave the range of float32")
            if i + 1 < len(self.layers):
                x = leave(block, z)
        return Step(rows, cat(states), z)

    def constant(self, tokens: IntArray) -> Interval:
        """What ``z`` holds beside what groups of heads add, ``(B, E)``; 0 for the whole model."""
        x = self.embedding[tokens]
        if self.heads is None:
            return Interval.point(np.zeros(x.shape))
        u = enter(self.blocks[0], x, 0)
        y = self.layers[0].constant(u)
        return x + y if self.blocks[0].residual else y


def blocks_of(model: Tagger) -> list[Block]:
    """The blocks of a model from the input up."""
    return [cast(Block, block) for block in model.blocks]


def enter(block: Block, x: Interval, i: int) -> Interval:
    """What the layer (``i = 0``) or the feed-forward (1) of a block reads."""
    return bounds(block.norms[i], x) if block.norm_kind == "pre" else x


def leave(block: Block, z: Interval) -> Interval:
    """The output of a block whose layer and residual path give ``z``."""
    x = z if block.norm_kind == "pre" else bounds(block.norms[0], z)
    if block.feedforward is None:
        return x
    y = bounds(block.feedforward, enter(block, x, 1))
    y = x + y if block.residual else y
    return y if block.norm_kind == "pre" else bounds(block.norms[1], y)


def _selective(block: Block) -> SelectiveLayer:
    if not isinstance(block.layer, SelectiveLayer):
        raise Undecided(f"there are no bounds for the layer {type(block.layer).__name__}")
    return block.layer
