"""Selective copying: a few data among much noise, to be told in order at the end.

    . . d1 . d2 . . . d_n . .  ? ? ... ?      target at the n question marks: d1 ... d_n

Source of the task: Mamba (arXiv 2312.00752). Its generator is not published; where the data stand is this library's choice.
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, whole_number
from statetrack.tasks.layout import IntArray, batch_of


@register("selective-copying")
class SelectiveCopying(Task):
    """The data of a sequence in order; they stand at a uniform set of places among the noise.

    Tokens: ``vocab_size - 1`` data, the noise, the question. A length counts data and noise; ``n_tokens`` questions follow.

    Args:
        vocab_size: number of ids before the question: data and one for noise.
        n_tokens: number of data in a sequence.

    >>> batch = SelectiveCopying(vocab_size=4, n_tokens=2).sample(1, 6, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[3, 2, 1, 3, 3, 3, 4, 4]], [2, 1])
    """

    summary = "data at random places among noise, told in order at the end"
    source = "arXiv 2312.00752"

    def __init__(self, *, vocab_size: int = 16, n_tokens: int = 16) -> None:
        self.n_classes = whole_number("vocab_size", vocab_size, low=2) - 1
        self.n_tokens = whole_number("n_tokens", n_tokens, low=1)
        self.noise = self.padding = self.n_classes
        self.question = self.n_classes + 1
        self.vocab_size = self.n_classes + 2
        self.chance = 1 / self.n_classes
        self.min_length = self.n_tokens

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        n, width = self.n_tokens, int(lengths.max())
        rows = np.arange(batch_size)[:, None]
        data = generator.integers(0, self.n_classes, size=(batch_size, n), dtype=np.int64)
        inputs = np.full((batch_size, width + n), self.noise, dtype=np.int64)
        inputs[rows, np.sort(_places(lengths, n, generator), axis=1)] = data
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        questions = lengths[:, None] + np.arange(n)
        inputs[rows, questions], targets[rows, questions], mask[rows, questions] = self.question, data, True
        return batch_of(inputs, targets, mask, lengths + n, self.padding)


def _places(lengths: IntArray, n: int, generator: np.random.Generator) -> IntArray:
    """``(B, n)`` different places, uniform below the length of the row."""
    places = np.arange(int(lengths.max()))
    ranks = np.where(places < lengths[:, None], generator.random((len(lengths), places.size)), 2.0)
    return np.asarray(np.argpartition(ranks, n - 1, axis=1)[:, :n], dtype=np.int64)
