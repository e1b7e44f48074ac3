"""Even pairs: whether a word has as many ``ab`` as ``ba``, which is whether it ends as it began."""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import Format, IntArray
from statetrack.tasks.parity import BINARY_LAYOUTS
from statetrack.tasks.word_task import WordTask, uniform_words

# State 0 has read nothing; state 1 + 2 first + last has read a word with these ends.
_TRANSITIONS = ((1, 4), (1, 2), (1, 2), (3, 4), (3, 4))
_VALUES = (0, 0, 1, 1, 0)


@register("even-pairs")
class EvenPairs(WordTask):
    """Is the number of unequal neighbours odd in a uniform word over ``a`` and ``b``?

    It is odd exactly when the last letter differs from the first, so a layer only has to remember the first.

    Args:
        format: ``"slice"`` (arXiv 2505.17761), ``"xlstm"`` (arXiv 2405.04517) or ``"chomsky"`` (arXiv 2207.02098).
    """

    summary = "parity of the number of unequal neighbours in a word over a, b"
    source = "arXiv 2207.02098, 2405.04517, 2505.17761"

    def __init__(self, *, format: Format = "slice") -> None:
        super().__init__(format, BINARY_LAYOUTS, n_values=2)
        self.automaton = self.layout.automaton(_TRANSITIONS, _VALUES)

    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        words = uniform_words(2, word_lengths, generator)
        last = words[np.arange(len(words)), word_lengths - 1]
        return words, words[:, 0] ^ last
