"""Solve equation: which digit does x stand for in ``(x + 3) - 1 = 4`` (mod 5)? Context-free.

Source: Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import IntArray
from statetrack.tasks.modular_arithmetic import MODULUS
from statetrack.tasks.modular_arithmetic_brackets import CLOSING, OPENING, draw_expressions
from statetrack.tasks.transduction import Answers, Transduction

UNKNOWN, EQUALS = 9, 10
"""Symbols beside the digits 0..4, 5 plus, 6 minus, 7 and 8 the brackets."""


@register("solve-equation")
class SolveEquation(Transduction):
    """The digit that x stands for in a bracketed sum that is set equal to its value mod 5; it is unique.

    The sum has two symbols less than the length. x replaces the first digit met from a uniform place onwards, going round. Words
    of fewer than three symbols are zeros, with the answer 0.

    >>> batch = SolveEquation().sample(1, 7, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[7, 9, 6, 2, 8, 10, 1, 11]], [3])
    """

    summary = "the digit that x stands for in an equation mod 5 with brackets"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(11, MODULUS, 1 / MODULUS)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        rows, n = np.arange(len(lengths)), np.maximum(lengths - 2, 1)
        expressions, values = draw_expressions(n, 2, generator)
        width = expressions.shape[1]
        begin = generator.integers(0, n)[:, None]
        order = (begin + np.arange(width)) % n[:, None]
        ahead = (np.take_along_axis(expressions, order, axis=1) < MODULUS) & (np.arange(width) < n[:, None])
        hidden = order[rows, ahead.argmax(axis=1)]
        answers = expressions[rows, hidden]
        words = np.zeros((len(lengths), max(width + 2, int(lengths.max()))), dtype=np.int64)
        words[:, :width] = expressions - np.isin(expressions, (OPENING, CLOSING))
        words[rows, hidden], words[rows, n], words[rows, n + 1] = UNKNOWN, EQUALS, values
        short = lengths < 3
        words[short], answers[short] = 0, 0
        one = np.ones_like(lengths)
        return Answers(words, answers[:, None], one, one)
