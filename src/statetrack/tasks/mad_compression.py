"""Compression of MAD: a whole sequence, to be given back from what the model holds at the last token alone.

    x1 ... x_{L-1} [compress]      target at every position: the token that is read there

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import Batch, register
from statetrack.tasks.checks import whole_number
from statetrack.tasks.example_set import ExampleTask
from statetrack.tasks.layout import IntArray, batch_of


@register("mad-compression")
class Compression(ExampleTask):
    """All tokens again. It is a task only for models that read their answers off the last position (``model.read_at="last"``).

    Args:
        vocab_size: number of ids; the last one ends each sequence.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the training set.

    >>> Compression().sample(1, 4, np.random.default_rng(0)).targets.tolist()
    [[12, 9, 7, 15]]
    """

    summary = "the whole sequence again, from what the model holds at its end"
    source = "arXiv 2403.17844"
    read_at = "last"

    def __init__(self, *, vocab_size: int = 16, n_examples: int | None = None, data_seed: int = 0) -> None:
        super().__init__(n_examples, data_seed)
        self.vocab_size = self.n_classes = whole_number("vocab_size", vocab_size, low=2)
        self.chance = 1 / (self.vocab_size - 1)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        shape = len(lengths), int(lengths.max())
        tokens = generator.integers(0, self.vocab_size - 1, size=shape, dtype=np.int64)
        tokens[np.arange(shape[0]), lengths - 1] = self.vocab_size - 1
        return batch_of(tokens, tokens, np.ones(shape, dtype=bool), lengths, self.padding)
