"""The states a piece of a model may be in, for each state of the specification.

    nodes (q, box): the box holds every state of the piece after every word that leads the specification to q

A node set is an invariant when it holds the initial state and every move leads from one node into another. Pieces with finitely
many states are enumerated. For others, boxes grow until nothing leaves them, one for each state of the specification and each
pattern of entries that hold something.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from statetrack.analysis.certificate.components import Component, Step
from statetrack.analysis.certificate.intervals import Interval, cat
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.analysis.language import Grammar

IntArray = npt.NDArray[np.int64]

_CHUNK = 2048
_ROUNDS, _PATIENCE, _SMOOTH, _ROOM = 400, 100, 1e-5, 1e-3


class Invariant:
    """Nodes of one piece.

    Attributes:
        component: the piece.
        grammar: the specification.
        states: ``(n,)`` the specification's state of each node; node 0 is the initial one.
        boxes: ``(n, F)``.
    """

    def __init__(self, component: Component, grammar: Grammar) -> None:
        self.component, self.grammar = component, grammar
        self.points = component.finite
        self.states = np.array([grammar.start])
        self.boxes = component.initial
        self.ids = {self._key(grammar.start, component.initial, 0): 0}

    def _key(self, state: int, boxes: Interval, row: int) -> tuple[int, bytes]:
        if self.points:
            return state, (boxes.lo[row] + 0.0).tobytes() + (boxes.hi[row] + 0.0).tobytes()
        return state, (~boxes[row].equals(0)).tobytes()

    def steps(self, nodes: IntArray) -> Iterator[tuple[IntArray, IntArray, IntArray, Step]]:
        """All moves out of some nodes in chunks: source node, token, the specification's next state, what may follow."""
        source, token, after = self.grammar.edges(self.states[nodes])
        for first in range(0, len(source), _CHUNK):
            part = slice(first, first + _CHUNK)
            step = self.component.step(token[part], self.boxes[nodes[source[part]]])
            yield nodes[source[part]][step.rows], token[part][step.rows], after[part][step.rows], step

    def close(self, limit: int) -> None:
        """Grow into an invariant.

        Raises:
            Undecided: more than ``limit`` nodes, or boxes that do not stop growing.
        """
        frontier = np.array([0])
        for round in range(limit if self.points else _ROUNDS):
            before = self.boxes
            frontier = self._grow(frontier, limit)
            if not len(frontier):
                break
            if round >= _PATIENCE and not self.points:
                self.boxes = _widened(before, self.boxes)
        if self.points:
            return
        for attempt in range(8):
            self.boxes = _inflated(self.boxes, _ROOM * 4**attempt)
            if self._closed():
                return
            self._grow(np.arange(len(self.states)), limit)
        raise Undecided("the states do not stay in bounded boxes")

    def _closed(self) -> bool:
        """Whether all that follows lies well inside, so that whoever checks it with other arithmetic finds it inside too."""
        for _, _, after, step in self.steps(np.arange(len(self.states))):
            nodes = self._nodes(after, step.state)
            room = np.where(step.state.equals(0), 0, _SMOOTH * (1 + step.state.size))
            if (nodes < 0).any() or not step.state.widened(room).inside(self.boxes[nodes]).all():
                return False
        return True

    def _nodes(self, after: IntArray, state: Interval) -> IntArray:
        """The node that each successor belongs to, -1 where there is none."""
        return np.array([self.ids.get(self._key(int(q), state, row), -1) for row, q in enumerate(after)], dtype=np.int64)

    def _grow(self, frontier: IntArray, limit: int) -> IntArray:
        """Take in what follows the nodes of the frontier; returns the nodes that are new or have grown."""
        changed: dict[int, None] = {}
        for _, _, after, step in self.steps(frontier):
            fresh: list[int] = []
            for row, q in enumerate(after):
                key = self._key(int(q), step.state, row)
                if key not in self.ids:
                    self.ids[key] = len(self.ids)
                    fresh.append(row)
                    changed[self.ids[key]] = None
            if len(self.ids) > limit:
                raise Undecided(f"there are more than {limit} states to follow")
            if fresh:
                self.states = np.append(self.states, after[fresh])
                self.boxes = cat([self.boxes, step.state[np.array(fresh)]], axis=0)
            if not self.points:
                changed |= dict.fromkeys(self._join(after, step.state))
        return np.array(list(changed), dtype=np.int64)

    def _join(self, after: IntArray, state: Interval) -> list[int]:
        nodes = self._nodes(after, state)
        low, high = self.boxes.lo.copy(), self.boxes.hi.copy()
        np.minimum.at(low, nodes, state.lo)
        np.maximum.at(high, nodes, state.hi)
        room = _SMOOTH / 10 * (1 + self.boxes.size)
        grown = ((low < self.boxes.lo - room) | (high > self.boxes.hi + room)).any(axis=-1)
        self.boxes = Interval(low, high)
        return np.flatnonzero(grown).tolist()


def _widened(before: Interval, boxes: Interval) -> Interval:
    """Boxes whose ends have moved go on to the next power of 2, or to 0, so that slow growth ends too."""
    n = len(before.lo)
    low, high = boxes.lo.copy(), boxes.hi.copy()
    with np.errstate(divide="ignore"):
        below = np.where(low >= 0, 0, -(2.0 ** np.ceil(np.log2(np.abs(low)))))
        above = np.where(high <= 0, 0, 2.0 ** np.ceil(np.log2(np.abs(high))))
    low[:n], high[:n] = np.where(low[:n] < before.lo, below[:n], low[:n]), np.where(high[:n] > before.hi, above[:n], high[:n])
    return Interval(low, high)


def _inflated(boxes: Interval, share: float) -> Interval:
    """Boxes a little larger, except where they hold nothing but 0."""
    room = np.where(boxes.equals(0), 0, share * (boxes.hi - boxes.lo + 0.1 * boxes.size + 0.1))
    return boxes.widened(room)
