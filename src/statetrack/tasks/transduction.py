"""Tasks that answer with a sequence: a word, then one empty step for each symbol of the answer.

This is the form of Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098): answers have an alphabet of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from statetrack.tasks.base import Batch, Task
from statetrack.tasks.checks import row_lengths
from statetrack.tasks.layout import IntArray, batch_of


class Answers(NamedTuple):
    """What a task asks about some words.

    Attributes:
        words: ``(B, W)`` symbols; what lies right of a word does not matter.
        answers: ``(B, A)`` symbols of the answers; what lies right of the scored ones does not matter.
        steps: ``(B,)`` number of empty steps.
        scored: ``(B,)`` number of steps that are scored, from the first on; published scores leave out what follows an
            answer's end.
    """

    words: IntArray
    answers: IntArray
    steps: IntArray
    scored: IntArray


class Transduction(Task):
    """A word of ``length`` symbols, then empty steps at which the answer is read. The empty symbol is the last token id.

    Args:
        n_symbols: number of symbols of words.
        n_answers: number of symbols of answers.
        chance: what guessing scores.
    """

    def __init__(self, n_symbols: int, n_answers: int, chance: float) -> None:
        self.vocab_size, self.n_classes = n_symbols + 1, n_answers
        self.empty = self.padding = n_symbols
        self.chance = chance

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        drawn = self.draw(lengths, generator)
        width = int((lengths + drawn.steps).max())
        places, rows = np.arange(width), np.arange(batch_size)[:, None]
        inputs = np.full((batch_size, width), self.empty, dtype=np.int64)
        inside = places < lengths[:, None]
        inputs[inside] = np.broadcast_to(
            np.pad(drawn.words, ((0, 0), (0, max(0, width - drawn.words.shape[1]))))[:, :width], inside.shape
        )[inside]
        step = places - lengths[:, None]
        mask = (step >= 0) & (step < drawn.scored[:, None])
        targets = drawn.answers[rows, np.clip(step, 0, drawn.answers.shape[1] - 1)]
        return batch_of(inputs, targets, mask, lengths + drawn.steps, self.padding)

    @abstractmethod
    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        """Words of the given lengths and their answers."""


def reversed_rows(words: IntArray, lengths: IntArray) -> IntArray:
    """Each row's first ``lengths`` entries backwards; what lies right of them does not matter."""
    backwards = np.maximum(lengths[:, None] - 1 - np.arange(words.shape[1]), 0)
    return np.take_along_axis(words, backwards, axis=1)
