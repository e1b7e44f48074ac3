"""Parity: the two-state counter, the smallest task that a recurrence with eigenvalues in [0, 1] cannot do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import Format, IntArray, Layout
from statetrack.tasks.word_task import WordTask, uniform_words

_SLICE = Layout(symbols=(1, 2), vocab_size=3, n_classes=3, first_class=1)
BINARY_LAYOUTS: dict[Format, Layout] = {
    "slice": _SLICE,
    "xlstm": replace(_SLICE, overhead=1),
    "chomsky": Layout(symbols=(0, 1), vocab_size=3, n_classes=2, first_class=0, closing=2, padding=2),
}
"""Ids of the tasks over two letters with two answers."""


@register("parity")
class Parity(WordTask):
    """Is the number of ``b`` odd in a uniform word over ``a`` and ``b``?

    Args:
        format: ``"slice"`` (arXiv 2505.17761), ``"xlstm"`` (arXiv 2405.04517) or ``"chomsky"`` (arXiv 2207.02098).

    >>> batch = Parity().sample(1, 4, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[1, 2, 2, 2]], [[0, 0, 0, 2]])
    """

    summary = "parity of the number of b in a word over a, b"
    source = "arXiv 2207.02098, 2405.04517, 2505.17761"

    def __init__(self, *, format: Format = "slice") -> None:
        super().__init__(format, BINARY_LAYOUTS, n_values=2)
        self.automaton = self.layout.automaton([[0, 1], [1, 0]], [0, 1])

    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        words = uniform_words(2, word_lengths, generator)
        return words, words.sum(axis=1) % 2
