"""Selective copying of MAD: data among blanks, to be told in order after a copy token.

    d1 _ _ d2 d3 _ ... d_n [copy] _ _ ... _      target at the n blanks after [copy]: d1 ... d_n

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import Batch, register
from statetrack.tasks.checks import whole_number
from statetrack.tasks.example_set import ExampleTask
from statetrack.tasks.layout import IntArray, batch_of


@register("mad-selective-copying")
class MadSelectiveCopying(ExampleTask):
    """The data of a sequence, in order, without the blanks.

    Each blank goes before a uniformly chosen datum, so none lies between the last datum and the copy token; the form of
    ``selective-copying`` spreads the data uniformly instead. A length counts everything.

    Args:
        vocab_size: V, number of ids: V - 2 data, the blank, the copy token.
        n_tokens: number of data in a sequence.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the training set.

    >>> batch = MadSelectiveCopying(n_tokens=2).sample(1, 8, np.random.default_rng(2))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[14, 14, 14, 11, 3, 15, 14, 14]], [11, 3])
    """

    summary = "data among blanks, told in order at the end"
    source = "arXiv 2403.17844"

    def __init__(self, *, vocab_size: int = 16, n_tokens: int = 16, n_examples: int | None = None, data_seed: int = 0) -> None:
        super().__init__(n_examples, data_seed)
        self.vocab_size = whole_number("vocab_size", vocab_size, low=3)
        self.n_classes = self.vocab_size - 2
        self.n_tokens = whole_number("n_tokens", n_tokens, low=1)
        self.blank, self.copy = self.vocab_size - 2, self.vocab_size - 1
        self.padding = self.blank
        self.chance = 1 / self.n_classes
        self.min_length = 2 * self.n_tokens + 1

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        batch_size, width, n = len(lengths), int(lengths.max()), self.n_tokens
        rows = np.arange(batch_size)[:, None]
        data = generator.integers(0, self.n_classes, size=(batch_size, n), dtype=np.int64)
        n_blanks = lengths - 2 * n - 1
        before = generator.integers(0, n, size=(batch_size, int(n_blanks.max())), dtype=np.int64)
        real = np.arange(before.shape[1]) < n_blanks[:, None]
        counts = np.bincount((rows * n + before)[real], minlength=batch_size * n).reshape(batch_size, n)
        inputs = np.full((batch_size, width), self.blank, dtype=np.int64)
        inputs[rows, np.arange(n) + np.cumsum(counts, axis=1)] = data
        inputs[rows[:, 0], lengths - n - 1] = self.copy
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        answers = lengths[:, None] - n + np.arange(n)
        targets[rows, answers], mask[rows, answers] = data, True
        return batch_of(inputs, targets, mask, lengths, self.padding)
