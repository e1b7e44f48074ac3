"""Stack manipulation: what is on a stack after some pushes and pops? Context-free.

Source: Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import IntArray
from statetrack.tasks.transduction import Answers, Transduction, reversed_rows

POP, PUSH = 2, 3
"""Symbols: 0 and 1 lie on the stack, 2 pops, 3 and 4 push 0 and 1."""
END = 2


@register("stack-manipulation")
class StackManipulation(Transduction):
    """The stack from top to bottom, then ``END``, after actions on a stack that is shown from bottom to top.

    The stack begins with a uniform number of bits, at least one and less than the length; the rest of the word are uniform
    actions. A pop of the empty stack does nothing. A word of one symbol is one bit.

    >>> batch = StackManipulation().sample(1, 6, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[1, 1, 0, 0, 0, 3, 5, 5, 5, 5, 5, 5, 5]], [0, 0, 0, 0, 1, 1, 2])
    """

    summary = "a stack after pushes and pops, from the top"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(5, 3, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        shape = len(lengths), int(lengths.max())
        rows, bottom = np.arange(shape[0]), 1 + generator.integers(0, np.maximum(lengths - 1, 1))
        bits = generator.integers(0, 2, size=shape, dtype=np.int64)
        actions = generator.integers(POP, PUSH + 2, size=shape, dtype=np.int64)
        words = np.where(np.arange(shape[1]) < bottom[:, None], bits, actions)
        stack, height = np.pad(bits, ((0, 0), (0, 1))), bottom.copy()
        for t in range(shape[1]):
            acting = (bottom <= t) & (t < lengths)
            pushing = acting & (words[:, t] >= PUSH)
            stack[rows[pushing], height[pushing]] = words[pushing, t] - PUSH
            height += np.where(pushing, 1, 0) - np.where(acting & (words[:, t] == POP) & (height > 0), 1, 0)
        answers = reversed_rows(stack, height)
        answers[rows, height] = END
        return Answers(words, answers, lengths + 1, height + 1)
