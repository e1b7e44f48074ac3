"""Words over a small alphabet, told backwards, twice, in two halves or sorted.

Source: Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098). Telling a word backwards is context-free, the others are
context-sensitive.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.checks import one_of
from statetrack.tasks.layout import IntArray
from statetrack.tasks.transduction import Answers, Transduction, reversed_rows
from statetrack.tasks.word_task import uniform_words

First: TypeAlias = Literal["odd", "even"]


@register("reverse-string")
class ReverseString(Transduction):
    """A uniform word over two letters, backwards.

    >>> batch = ReverseString().sample(1, 4, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[0, 1, 1, 1, 2, 2, 2, 2]], [1, 1, 1, 0])
    """

    summary = "a word over two letters, backwards"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(2, 2, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        words = uniform_words(2, lengths, generator)
        return Answers(words, reversed_rows(words, lengths), lengths, lengths)


@register("duplicate-string")
class DuplicateString(Transduction):
    """A uniform word over two letters, twice."""

    summary = "a word over two letters, twice"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(2, 2, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        words = uniform_words(2, lengths, generator)
        again = np.arange(2 * words.shape[1]) % lengths[:, None]
        return Answers(words, np.take_along_axis(words, again, axis=1), 2 * lengths, 2 * lengths)


@register("odds-first")
class OddsFirst(Transduction):
    """A uniform word over two letters: every other letter, then the others.

    Args:
        first: ``"odd"`` tells the letters in odd places (1st, 3rd, ...) first, as documented; the released code tells those in
            ``"even"`` places first.
    """

    summary = "a word over two letters: odd places, then even ones"
    source = "arXiv 2207.02098"

    def __init__(self, *, first: First = "odd") -> None:
        super().__init__(2, 2, 1 / 2)
        self.first = one_of("first", first, ("odd", "even"))

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        words = uniform_words(2, lengths, generator)
        n_odd = (lengths + 1) // 2
        n_first = (n_odd if self.first == "odd" else lengths - n_odd)[:, None]
        step = np.arange(words.shape[1])
        parity = 0 if self.first == "odd" else 1
        source = np.where(step < n_first, 2 * step + parity, 2 * (step - n_first) + 1 - parity)
        inside = step < lengths[:, None]
        return Answers(words, np.take_along_axis(words, np.where(inside, source, 0), axis=1), lengths, lengths)


@register("bucket-sort")
class BucketSort(Transduction):
    """A uniform word over five letters, in ascending order."""

    summary = "a word over five letters, sorted"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(5, 5, 1 / 5)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        words = uniform_words(5, lengths, generator)
        outside = np.arange(words.shape[1]) >= lengths[:, None]
        return Answers(words, np.sort(np.where(outside, 5, words), axis=1), lengths, lengths)
