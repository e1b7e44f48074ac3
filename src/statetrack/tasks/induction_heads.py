"""Induction heads: what came after the special token the first time?

    . . . S x . . . . S      target at the last token: x

Source of the task: Mamba (arXiv 2312.00752). Its generator is not published; where the token stands is this library's choice.
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, whole_number
from statetrack.tasks.layout import batch_of


@register("induction-heads")
class InductionHeads(Task):
    """The successor of a special token that stands once at a uniform place, asked for when it comes again as the last token.

    Only the last token is labelled. Everything else is uniform.

    Args:
        vocab_size: number of ids; the last one is special.

    >>> batch = InductionHeads().sample(1, 6, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[15, 9, 7, 4, 4, 15]], [9])
    """

    summary = "the token that followed the special one"
    source = "arXiv 2312.00752"

    def __init__(self, *, vocab_size: int = 16) -> None:
        self.vocab_size = whole_number("vocab_size", vocab_size, low=2)
        self.n_classes = self.vocab_size - 1
        self.chance = 1 / self.n_classes
        self.min_length = 3

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        rows, special = np.arange(batch_size), self.vocab_size - 1
        inputs = generator.integers(0, special, size=(batch_size, int(lengths.max())), dtype=np.int64)
        place = generator.integers(0, lengths - 2)
        inputs[rows, place] = inputs[rows, lengths - 1] = special
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        targets[rows, lengths - 1], mask[rows, lengths - 1] = inputs[rows, place + 1], True
        return batch_of(inputs, targets, mask, lengths, self.padding)
