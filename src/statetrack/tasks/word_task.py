"""Tasks that ask one question about each word, in any of the published formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from statetrack.tasks.base import Batch, Task
from statetrack.tasks.checks import one_of, row_lengths
from statetrack.tasks.layout import FORMATS, Format, IntArray, Layout


class WordTask(Task):
    """One answer after each word.

    The three formats write the same words with other ids and count other things as the length:

    - ``slice``: the answer is read at the last token; labels share the ids of the tokens.
    - ``xlstm``: as ``slice``, but a length also counts the slot that the answer would fill in a text, so one token less is seen.
    - ``chomsky``: one empty symbol follows the word and the answer is read there; labels have ids of their own.

    A subclass hands over the layouts and draws the words.

    Args:
        format: name of the format.
        layouts: the layout of each format.
        n_values: number of possible answers.
    """

    def __init__(self, format: Format, layouts: Mapping[Format, Layout], n_values: int) -> None:
        one_of("format", format, FORMATS)
        self.format: Format = format
        self.layout = layouts[format]
        self.vocab_size, self.n_classes = self.layout.vocab_size, self.layout.n_classes
        self.padding = self.layout.padding
        self.chance = 1 / n_values
        self.min_length = self.layout.overhead + 1

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        word_lengths = self.word_lengths(row_lengths(self, batch_size, length))
        words, values = self.draw(word_lengths, generator)
        return self.layout.batch(words, values, word_lengths)

    def word_lengths(self, lengths: IntArray) -> IntArray:
        """Number of symbols of the words that lengths of this format stand for."""
        return lengths - self.layout.overhead

    @abstractmethod
    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Words ``(B, W)`` in symbols, with anything right of a word, and their answers ``(B,)``."""


def uniform_words(n_symbols: int, word_lengths: IntArray, generator: np.random.Generator) -> IntArray:
    """Words ``(B, W)`` of independent uniform symbols, with symbol 0 right of each word."""
    width = int(word_lengths.max())
    words = generator.integers(0, n_symbols, size=(len(word_lengths), width), dtype=np.int64)
    words[np.arange(width) >= word_lengths[:, None]] = 0
    return words
