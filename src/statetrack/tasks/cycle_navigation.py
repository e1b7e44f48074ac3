"""Cycle navigation: where a walk on a ring of places ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.checks import one_of, whole_number
from statetrack.tasks.layout import FORMATS, Format, IntArray, Layout
from statetrack.tasks.word_task import WordTask, uniform_words

_MOVES = np.array((0, 1, -1))


def _layouts(cycle: int) -> dict[Format, Layout]:
    slice_layout = Layout(symbols=(1, 2, 3), vocab_size=cycle + 4, n_classes=cycle + 4, first_class=4)
    return {
        "slice": slice_layout,
        "xlstm": replace(slice_layout, overhead=1),
        "chomsky": Layout(symbols=(1, 2, 0), vocab_size=4, n_classes=cycle, first_class=0, closing=3, padding=3),
    }


@register("cycle-navigation")
class CycleNavigation(WordTask):
    """Where does a walk of uniform steps (stay, forward, back) end on a ring of ``cycle`` places, from place 0?

    Args:
        format: ``"slice"`` (arXiv 2505.17761), ``"xlstm"`` (arXiv 2405.04517) or ``"chomsky"`` (arXiv 2207.02098).
        cycle: number of places. None means what the released code of the format does: 5, but **6** in ``xlstm``, whose places are
            the tokens left over in a vocabulary of 10. Say 5 there to compare with the other formats.

    Raises:
        InvalidInputError: a cycle of less than two places.
    """

    summary = "end of a walk on a ring of places"
    source = "arXiv 2207.02098, 2405.04517, 2505.17761"

    def __init__(self, *, format: Format = "slice", cycle: int | None = None) -> None:
        one_of("format", format, FORMATS)
        if cycle is None:
            cycle = 6 if format == "xlstm" else 5
        self.cycle = whole_number("cycle", cycle, low=2)
        super().__init__(format, _layouts(self.cycle), n_values=self.cycle)
        places = np.arange(self.cycle)
        self.automaton = self.layout.automaton((places[:, None] + _MOVES) % self.cycle, places)

    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        words = uniform_words(3, word_lengths, generator)
        return words, _MOVES[words].sum(axis=1) % self.cycle
