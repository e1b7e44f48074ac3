"""Memorization of MAD: facts that are the same in every sequence and have to be stored in the weights.

    k1 [insert] k2 [insert] ...      target at [insert]: the value of the key before it

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import Batch, register
from statetrack.tasks.checks import whole_number
from statetrack.tasks.example_set import ExampleTask, even
from statetrack.tasks.layout import IntArray, batch_of


@register("mad-memorization")
class Memorization(ExampleTask):
    """Which value belongs to a key? The one-to-one map is drawn from ``data_seed`` and never shown.

    Tokens: ``(V - 1) // 2`` keys, as many or one more values, then the insert id. Lengths are rounded up to even.

    With a limited set of examples some keys may never be taught; ``ceiling_at`` is then the share of keys that are.

    Args:
        vocab_size: V, number of ids.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the map and of the training set.

    >>> task = Memorization(vocab_size=1024, n_examples=256)
    >>> round(Memorization(vocab_size=1024, n_examples=256).ceiling_at(32), 4)
    1.0
    """

    summary = "values of keys that are the same in all sequences"
    source = "arXiv 2403.17844"

    def __init__(self, *, vocab_size: int = 256, n_examples: int | None = None, data_seed: int = 0) -> None:
        super().__init__(n_examples, data_seed)
        self.vocab_size = self.n_classes = whole_number("vocab_size", vocab_size, low=3)
        self.n_keys = (self.vocab_size - 1) // 2
        generator = np.random.Generator(np.random.PCG64(self.data_seed))
        keys = generator.permutation(self.n_keys)
        values = generator.permutation(np.arange(self.n_keys, self.vocab_size - 1))
        self.values = np.empty(self.n_keys, dtype=np.int64)
        self.values[keys] = values[: self.n_keys]
        self.chance = 1 / self.n_keys
        self.ceiling = 1.0 if n_examples is None else None
        self.min_length = 2

    def ceiling_at(self, length: int) -> float | None:
        if self.n_examples is None:
            return self.ceiling
        inputs = self.examples(int(even(np.array([length]))[0])).inputs.numpy()
        return np.unique(inputs[:, ::2]).size / self.n_keys

    def round_lengths(self, lengths: IntArray) -> IntArray:
        return even(lengths)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        width = int(lengths.max())
        inputs = np.full((len(lengths), width), self.vocab_size - 1, dtype=np.int64)
        inputs[:, ::2] = generator.integers(0, self.n_keys, size=(len(lengths), width // 2), dtype=np.int64)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        targets[:, 1::2], mask[:, 1::2] = self.values[inputs[:, ::2]], True
        return batch_of(inputs, targets, mask, lengths, self.padding)
