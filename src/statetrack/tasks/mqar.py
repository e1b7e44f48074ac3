"""Multi-query associative recall (MQAR): pairs of a key and its value, then keys that ask for their values.

    k1 v1 ... k_n v_n  (updates: k' v' ...)  . . k3 . k1 . . .      target at a key after the pairs: its latest value

Source: Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927).
"""

from __future__ import annotations

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, truth_value, whole_number
from statetrack.tasks.example_set import even
from statetrack.tasks.layout import IntArray, batch_of


@register("mqar")
class MQAR(Task):
    """The values of all keys, each asked for once.

    Ids: 0 fills, the rest of the lower half are keys, the upper half values. Keys are distinct, values are distinct. After the
    pairs come slots of two tokens; each key goes into one of them, slot ``i`` (from 1) with weight ``i ** (power - 1)``, without
    replacement, so that a small power asks soon. Lengths are rounded up to even.

    Args:
        vocab_size: number of ids.
        n_pairs: number of keys.
        passes: how often the pairs are shown.
        n_updates: that many keys get a new value, which always differs from the old one, in a second block.
        power: exponent of the law of the questions' places; 1 is uniform.
        random_fillers: fill with uniform ids of the whole vocabulary in place of 0; those can look like pairs and questions.

    Raises:
        InvalidInputError: more pairs than keys or values, more updates than pairs, or a number out of range.

    >>> batch = MQAR(vocab_size=18, n_pairs=2).sample(1, 16, np.random.default_rng(3))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[1, 10, 5, 17, 0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0]], [17, 10])
    """

    summary = "the values of all keys that were shown, each asked for once"
    source = "arXiv 2312.04927"

    def __init__(
        self,
        *,
        vocab_size: int = 8192,
        n_pairs: int = 4,
        passes: int = 1,
        n_updates: int = 0,
        power: float = 0.01,
        random_fillers: bool = False,
    ) -> None:
        self.vocab_size = self.n_classes = whole_number("vocab_size", vocab_size, low=4)
        self.n_pairs, self.passes = whole_number("n_pairs", n_pairs, low=1), whole_number("passes", passes, low=1)
        self.n_updates = whole_number("n_updates", n_updates, low=0)
        self.random_fillers = truth_value("random_fillers", random_fillers)
        self.first_value = self.vocab_size // 2
        if self.n_pairs > self.first_value - 1:
            raise InvalidInputError(f"vocab_size {vocab_size} has {self.first_value - 1} keys, but n_pairs is {n_pairs}.")
        if self.n_updates > self.n_pairs:
            raise InvalidInputError(f"n_updates must be at most n_pairs ({n_pairs}), got {n_updates}.")
        if isinstance(power, bool) or not isinstance(power, (int, float)) or not power > 0:
            raise InvalidInputError(f"power must be a positive number, got {power!r}.")
        self.power = float(power)
        self.chance = 1 / (self.vocab_size - self.first_value)
        self.ceiling = None if self.random_fillers else 1.0
        self.context = 2 * (self.n_pairs * self.passes + self.n_updates)
        self.min_length = self.context + 2 * self.n_pairs

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = even(row_lengths(self, batch_size, length))
        width, n = int(lengths.max()), self.n_pairs
        rows = np.arange(batch_size)[:, None]
        keys = 1 + _distinct(self.first_value - 1, (batch_size, n), generator)
        values = self.first_value + _distinct(self.vocab_size - self.first_value, (batch_size, n), generator)
        if self.random_fillers:
            inputs = generator.integers(0, self.vocab_size, size=(batch_size, width), dtype=np.int64)
        else:
            inputs = np.zeros((batch_size, width), dtype=np.int64)
        shown = 2 * n * self.passes
        inputs[:, :shown] = np.tile(np.stack((keys, values), axis=2).reshape(batch_size, 2 * n), self.passes)
        if self.n_updates:
            picked = _distinct(n, (batch_size, self.n_updates), generator)
            values = self._updated(values, picked, generator)
            inputs[:, shown : self.context : 2] = keys[rows, picked]
            inputs[:, shown + 1 : self.context : 2] = values[rows, picked]
        places = self.context + 2 * self._gaps((lengths - self.context) // 2, generator)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        inputs[rows, places], targets[rows, places], mask[rows, places] = keys, values, True
        return batch_of(inputs, targets, mask, lengths, self.padding)

    def _gaps(self, n_slots: IntArray, generator: np.random.Generator) -> IntArray:
        """``(B, n_pairs)`` different slots in the order in which weighted draws without replacement give them.

        The order of independent exponential times with rates ``w`` is that of such draws.
        """
        slots = np.arange(int(n_slots.max()))
        times = generator.exponential(size=(len(n_slots), slots.size)) / (slots + 1.0) ** (self.power - 1)
        return np.argsort(np.where(slots < n_slots[:, None], times, np.inf), axis=1)[:, : self.n_pairs]

    def _updated(self, values: IntArray, picked: IntArray, generator: np.random.Generator) -> IntArray:
        """New values for the picked keys, each uniform among those it did not have."""
        rows, updated = np.arange(len(values))[:, None], values.copy()
        step = generator.integers(1, self.vocab_size - self.first_value, size=picked.shape, dtype=np.int64)
        fresh = (values[rows, picked] - self.first_value + step) % (self.vocab_size - self.first_value)
        updated[rows, picked] = self.first_value + fresh
        return updated


def _distinct(n_ids: int, shape: tuple[int, int], generator: np.random.Generator) -> IntArray:
    """Rows of different ids below ``n_ids``, in uniform order."""
    ranks = generator.random((shape[0], n_ids))
    if shape[1] < n_ids:
        chosen = np.argpartition(ranks, shape[1] - 1, axis=1)[:, : shape[1]]
    else:
        chosen = np.broadcast_to(np.arange(n_ids), ranks.shape)
    order = np.argsort(np.take_along_axis(ranks, chosen, axis=1), axis=1)
    return np.asarray(np.take_along_axis(chosen, order, axis=1), dtype=np.int64)
