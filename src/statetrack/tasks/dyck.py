"""Dyck words of bounded depth: which brackets may come next?

    ( [ ] ( ) )      target at each token: may one open, and which one may close

Source: RNNs can generate bounded hierarchical languages with optimal memory (arXiv 2010.07515).
"""

from __future__ import annotations

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, share, whole_number
from statetrack.tasks.layout import IntArray, batch_of

_LARGEST = 20_000
"""Automata with more states are not built."""


@register("dyck")
class Dyck(Task):
    """The set of legal next brackets after each bracket of a random prefix of a Dyck word.

    Bracket ``j`` opens as token ``j`` and closes as token ``n_types + j``. The legal next tokens follow from the depth and the
    innermost open bracket: class 0: nothing is open; class ``1 + j``: bracket ``j`` may close and more may open; class
    ``1 + n_types + j``: bracket ``j`` may close and the depth is used up.

    Args:
        n_types: number of kinds of brackets.
        depth: most brackets that may be open at a time.
        opening: probability of an opening bracket where both are legal; its kind is uniform.

    >>> batch = Dyck(n_types=2, depth=2).sample(1, 8, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[1, 1, 3, 1, 3, 3, 1, 3]], [[2, 4, 2, 4, 2, 0, 2, 0]])
    """

    summary = "legal next brackets after each bracket, depth bounded"
    source = "arXiv 2010.07515"

    def __init__(self, *, n_types: int = 2, depth: int = 4, opening: float = 0.5) -> None:
        self.n_types, self.depth = whole_number("n_types", n_types, low=1), whole_number("depth", depth, low=1)
        self.opening = share("opening", opening)
        self.padding = 2 * self.n_types
        self.vocab_size, self.n_classes = 2 * self.n_types + 1, 2 * self.n_types + 1
        self.chance = 1 / self.n_classes
        if sum(self.n_types**d for d in range(self.depth + 1)) <= _LARGEST:
            self.automaton = _machine(self.n_types, self.depth)

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        width, rows = int(lengths.max()), np.arange(batch_size)
        opens = generator.random((batch_size, width)) < self.opening
        kinds = generator.integers(0, self.n_types, size=(batch_size, width), dtype=np.int64)
        stack, open_now = np.zeros((batch_size, self.depth + 1), dtype=np.int64), np.zeros(batch_size, dtype=np.int64)
        inputs, targets = np.empty((batch_size, width), dtype=np.int64), np.empty((batch_size, width), dtype=np.int64)
        for t in range(width):
            up = (opens[:, t] & (open_now < self.depth)) | (open_now == 0)
            inputs[:, t] = np.where(up, kinds[:, t], self.n_types + stack[rows, open_now])
            open_now += np.where(up, 1, -1)
            stack[rows[up], open_now[up]] = kinds[up, t]
            targets[:, t] = self._classes(stack[rows, open_now], open_now)
        return batch_of(inputs, targets, np.ones(inputs.shape, dtype=bool), lengths, self.padding)

    def _classes(self, innermost: IntArray, open_now: IntArray) -> IntArray:
        return np.where(open_now == 0, 0, 1 + innermost + np.where(open_now == self.depth, self.n_types, 0))


def _machine(n_types: int, depth: int) -> Automaton:
    """One state for each stack, in the order of its length and then its content, and one for words that are no prefix."""
    sizes = [n_types**d for d in range(depth + 1)]
    first = np.concatenate(([0], np.cumsum(sizes)))
    n_stacks, broken = int(first[-1]), int(first[-1])
    transitions = np.full((n_stacks + 1, 2 * n_types + 1), broken, dtype=np.int64)
    outputs = np.zeros(n_stacks + 1, dtype=np.int64)
    for d in range(depth + 1):
        below, innermost = np.divmod(np.arange(sizes[d]), n_types)
        states = first[d] + np.arange(sizes[d])
        for kind in range(n_types):
            if d < depth:
                transitions[states, kind] = first[d + 1] + np.arange(sizes[d]) * n_types + kind
            if d:
                match = innermost == kind
                transitions[states[match], n_types + kind] = first[d - 1] + below[match]
        if d:
            outputs[states] = 1 + innermost + (n_types if d == depth else 0)
    transitions[:, 2 * n_types] = np.arange(n_stacks + 1)
    return Automaton(transitions, outputs)
