"""In-context and noisy recall of MAD: pairs of a key and its value, and the value is known from the second time on.

    k1 v1 k2 v2 (noise noise) k1 v1 ... k v      value of a key: uniform at first use, then always the same

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, register
from statetrack.tasks.checks import share, whole_number
from statetrack.tasks.example_set import ExampleTask, even
from statetrack.tasks.layout import IntArray, batch_of


class _Slots(NamedTuple):
    """``(B, S)`` each: the key and value of a slot, whether it is noise, and whether its key was shown before."""

    keys: IntArray
    values: IntArray
    noisy: np.ndarray
    known: np.ndarray


@register("mad-in-context-recall")
class InContextRecall(ExampleTask):
    """What was the value of this key earlier on?

    Tokens: the lower half of the usable ids are keys, the upper half values, noise comes last. A length ``L`` counts the pairs;
    it is rounded up to even, and the last token is only ever a target, so ``L - 1`` tokens are read. Training asks for the next
    token everywhere except noise; held-out data ask for the values of keys that were shown before, so nothing there is a guess.

    Args:
        vocab_size: number of ids, noise included.
        n_noise: number of ids that are noise.
        noise: probability that a slot of two tokens is noise.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the training set.

    Raises:
        InvalidInputError: fewer than two usable ids, noise without ids for it, or a number out of range.

    >>> batch = InContextRecall(vocab_size=4).held_out().sample(1, 8, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[1, 3, 1, 3, 1, 3, 1]], [[0, 0, 3, 0, 3, 0, 3]])
    """

    summary = "the value that a key was shown with earlier"
    source = "arXiv 2403.17844"

    def __init__(
        self,
        *,
        vocab_size: int = 16,
        n_noise: int = 0,
        noise: float = 0.0,
        n_examples: int | None = None,
        data_seed: int = 0,
    ) -> None:
        super().__init__(n_examples, data_seed)
        self.noise, self.n_noise = share("noise", noise), whole_number("n_noise", n_noise, low=0)
        self.vocab_size = self.n_classes = whole_number("vocab_size", vocab_size, low=self.n_noise + 2)
        if self.noise and not self.n_noise:
            raise InvalidInputError(f"noise {noise} needs ids for it: n_noise is 0.")
        if self.noise == 1:
            raise InvalidInputError("noise must leave some pairs: it has to lie below 1.")
        self.n_keys = (self.vocab_size - self.n_noise) // 2
        self.chance = 1 / (self.vocab_size - self.n_noise - self.n_keys)
        self.min_length = 4

    def round_lengths(self, lengths: IntArray) -> IntArray:
        return even(lengths)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        slots = self._slots(lengths // 2, generator)
        batch_size, n_slots = slots.keys.shape
        tokens = np.stack((slots.keys, slots.values), axis=2)
        first_noise = self.vocab_size - self.n_noise
        if self.n_noise:
            noise = generator.integers(first_noise, self.vocab_size, size=tokens.shape, dtype=np.int64)
            tokens = np.where(slots.noisy[:, :, None], noise, tokens)
        asked = np.zeros(tokens.shape, dtype=bool)
        if self.testing:
            asked[:, :, 1] = slots.known & ~slots.noisy
        else:
            asked[:] = ~slots.noisy[:, :, None]
        told, wanted = tokens.reshape(batch_size, 2 * n_slots), asked.reshape(batch_size, 2 * n_slots)
        return batch_of(told[:, :-1], told[:, 1:], wanted[:, 1:], lengths - 1, self.padding)

    def _slots(self, n_slots: IntArray, generator: np.random.Generator) -> _Slots:
        batch_size, width, n_keys = len(n_slots), int(n_slots.max()), self.n_keys
        rows, places = np.arange(batch_size), np.arange(width)
        context = places < n_slots[:, None] - 1
        keys = generator.integers(0, n_keys, size=(batch_size, width), dtype=np.int64)
        noisy = np.zeros((batch_size, width), dtype=bool)
        redraw = np.arange(batch_size if self.noise else 0)
        while redraw.size:
            protected = places == generator.integers(0, n_slots[redraw])[:, None]
            noisy[redraw] = (generator.random((redraw.size, width)) < self.noise) & ~protected & context[redraw]
            redraw = redraw[~(context[redraw] & ~noisy[redraw]).any(axis=1)]
        shown = np.zeros((batch_size, n_keys), dtype=bool)
        row_ids = np.broadcast_to(rows[:, None], keys.shape)
        shown[row_ids[context & ~noisy], keys[context & ~noisy]] = True
        keys[rows, n_slots - 1] = np.argmax(generator.random((batch_size, n_keys)) * shown, axis=1)
        first = np.full((batch_size, n_keys), width, dtype=np.int64)
        at = np.broadcast_to(places, keys.shape)
        clean = ~noisy & (places < n_slots[:, None])
        np.minimum.at(first, (row_ids[clean], keys[clean]), at[clean])
        values_of = generator.integers(n_keys, self.vocab_size - self.n_noise, size=(batch_size, n_keys), dtype=np.int64)
        return _Slots(keys, values_of[rows[:, None], keys], noisy, first[rows[:, None], keys] < places)


@register("mad-noisy-recall")
class NoisyRecall(InContextRecall):
    """In-context recall with pairs of noise in between.

    Args:
        vocab_size: number of ids, noise included.
        n_noise: number of ids that are noise.
        noise: probability that a slot of two tokens is noise; one slot of each sequence never is.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the training set.
    """

    summary = "the value that a key was shown with earlier, with noise in between"

    def __init__(
        self,
        *,
        vocab_size: int = 32,
        n_noise: int = 16,
        noise: float = 0.2,
        n_examples: int | None = None,
        data_seed: int = 0,
    ) -> None:
        super().__init__(vocab_size=vocab_size, n_noise=n_noise, noise=noise, n_examples=n_examples, data_seed=data_seed)
