"""Fuzzy recall of MAD: keys and values are tuples of one to three tokens, so the model has to see where one ends.

    key value key value ... probe-key probe-value      the probe was shown somewhere before

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from statetrack.tasks.base import Batch, register
from statetrack.tasks.checks import truth_value, whole_number
from statetrack.tasks.example_set import ExampleTask
from statetrack.tasks.layout import IntArray, batch_of

MOTIF = 3
"""Most tokens of a key or a value."""


class _Motifs(NamedTuple):
    """Tuples of ids: ``(..., MOTIF)`` tokens, of which the first ``(...)`` sizes count."""

    tokens: IntArray
    sizes: IntArray


@register("mad-fuzzy-recall")
class FuzzyRecall(ExampleTask):
    """The value of a key that was shown before, where both are tuples of distinct ids.

    Padding, which stands left, is id V - 1; ids below ``(V - 1) // 2`` make up keys, the others values. Training has keys of
    one to three tokens and asks for the next token everywhere; held-out data have keys of three and ask for all tokens of the
    values whose key was shown before.

    Pairs are drawn one after the other, and a probe pair goes in before the first that begins at or after a uniform place. In the
    released code the sequence sometimes ends before that place comes, and the last question cannot be answered; here the place
    is drawn again until the probe is in.

    Args:
        vocab_size: V, number of ids.
        released: leave the probe out where the released code does.
        n_examples: size of the training set; None draws fresh examples for ever.
        data_seed: seed of the training set.
    """

    summary = "values of keys shown earlier, where keys and values are tuples"
    source = "arXiv 2403.17844"

    def __init__(
        self, *, vocab_size: int = 16, released: bool = False, n_examples: int | None = None, data_seed: int = 0
    ) -> None:
        super().__init__(n_examples, data_seed)
        self.vocab_size = self.n_classes = whole_number("vocab_size", vocab_size, low=2 * MOTIF + 1)
        self.released = truth_value("released", released)
        self.first_value = (self.vocab_size - 1) // 2
        self.padding = self.vocab_size - 1
        self.chance = 1 / (self.vocab_size - 1 - self.first_value)
        self.ceiling = None if released else 1.0
        self.min_length = 4 * MOTIF + 1

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        n_pairs = int(lengths.max()) // 2
        keys, values = self._pairs((len(lengths), n_pairs + 1), generator)
        place = self._probe_place(keys, values, lengths, generator)
        keys, values = (_moved_in(motifs, place) for motifs in (keys, values))
        return self._written(keys, values, lengths)

    def _pairs(self, shape: tuple[int, int], generator: np.random.Generator) -> tuple[_Motifs, _Motifs]:
        """Keys and values, the probe in column 0; equal keys have the value of the first of them."""
        n_values = self.vocab_size - 1 - self.first_value
        sizes = np.full(shape, MOTIF) if self.testing else generator.integers(1, MOTIF + 1, size=shape, dtype=np.int64)
        keys = _Motifs(_distinct(self.first_value, shape, generator), sizes)
        values = _Motifs(
            _distinct(n_values, shape, generator) + self.first_value, generator.integers(1, MOTIF + 1, size=shape, dtype=np.int64)
        )
        codes = _codes(keys, self.first_value)
        _, first, which = np.unique(
            codes + codes.max() * 2 * np.arange(len(codes))[:, None], return_index=True, return_inverse=True
        )
        source = first[which.reshape(shape)]
        return keys, _Motifs(values.tokens.reshape(-1, MOTIF)[source], values.sizes.ravel()[source])

    def _probe_place(self, keys: _Motifs, values: _Motifs, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        """Number of other pairs before the probe, or -1 where it is not put in (it came up by chance, or too late)."""
        sizes = keys.sizes + values.sizes
        begins = np.cumsum(sizes[:, 1:], axis=1) - sizes[:, 1:]
        codes = _codes(keys, self.first_value)
        lucky = codes[:, 1:] == codes[:, :1]
        n_lucky = np.where(lucky.any(axis=1), lucky.argmax(axis=1), lucky.shape[1])
        limit = lengths - sizes[:, 0] - 2 * MOTIF
        place = np.full(len(lengths), -1, dtype=np.int64)
        draw = np.arange(len(lengths))
        while draw.size:
            index = generator.integers(0, (lengths - 2 * sizes[:, 0])[draw])
            first = (begins[draw] >= index[:, None]).argmax(axis=1)
            begin = begins[draw, first]
            inside, by_chance = (begin >= index) & (begin < limit[draw]), n_lucky[draw] < first
            place[draw[inside & ~by_chance]] = first[inside & ~by_chance]
            chance_shown = begins[draw, np.minimum(n_lucky[draw], begins.shape[1] - 1)] < limit[draw]
            missed = ~inside & ~(by_chance & chance_shown)
            draw = draw[missed] if not self.released else draw[:0]
        return place

    def _written(self, keys: _Motifs, values: _Motifs, lengths: IntArray) -> Batch:
        """Pairs in order, cut off where the sequence is full, then the probe, which is the last column."""
        batch_size = len(lengths)
        sizes = keys.sizes + values.sizes
        ends = np.cumsum(sizes, axis=1)
        kept = ends - sizes < (lengths - sizes[:, -1] - 2 * MOTIF)[:, None]
        kept[:, -1] = True
        codes = _codes(keys, self.first_value)
        _, first, which = np.unique(
            codes + codes.max() * 2 * np.arange(batch_size)[:, None], return_index=True, return_inverse=True
        )
        flat = np.arange(codes.size).reshape(codes.shape)
        known = first[which.reshape(codes.shape)] < flat
        known[:, -1] = True
        parts = np.concatenate((keys.tokens, values.tokens), axis=2)
        real = np.concatenate((np.arange(MOTIF) < keys.sizes[..., None], np.arange(MOTIF) < values.sizes[..., None]), axis=2)
        real &= kept[..., None]
        asked = np.zeros(parts.shape, dtype=bool)
        asked[..., MOTIF:] = known[..., None]
        if not self.testing:
            asked[...] = True
        n_tokens = real.sum(axis=(1, 2))
        width = int(lengths.max()) + 1
        rows = np.repeat(np.arange(batch_size), n_tokens)
        within = np.arange(n_tokens.sum()) - np.repeat(np.cumsum(n_tokens) - n_tokens, n_tokens)
        columns = within + np.repeat(lengths + 1 - n_tokens, n_tokens)
        tokens, mask = np.full((batch_size, width), self.padding, dtype=np.int64), np.zeros((batch_size, width), dtype=bool)
        tokens[rows, columns], mask[rows, columns] = parts[real], asked[real]
        return batch_of(tokens[:, :-1], tokens[:, 1:], mask[:, 1:], lengths, self.padding)


def _distinct(n_ids: int, shape: tuple[int, int], generator: np.random.Generator) -> IntArray:
    """``(*shape, 3)`` ids below ``n_ids``, three different ones each."""
    first = generator.integers(0, n_ids, size=shape, dtype=np.int64)
    second = generator.integers(0, n_ids - 1, size=shape, dtype=np.int64)
    second += second >= first
    third = generator.integers(0, n_ids - 2, size=shape, dtype=np.int64)
    third += third >= np.minimum(first, second)
    third += third >= np.maximum(first, second)
    return np.stack((first, second, third), axis=-1)


def _codes(motifs: _Motifs, n_ids: int) -> IntArray:
    """One number for each tuple, equal only for equal tuples."""
    digits = np.where(np.arange(MOTIF) < motifs.sizes[..., None], motifs.tokens + 1, 0)
    return np.asarray(digits @ ((n_ids + 1) ** np.arange(MOTIF, dtype=np.int64)))


def _moved_in(motifs: _Motifs, place: IntArray) -> _Motifs:
    """The probe, column 0, both at its place among the others and at the end; where there is no place, at the end alone."""
    n_pairs = motifs.sizes.shape[1] - 1
    order = np.broadcast_to(np.arange(n_pairs + 1), (len(place), n_pairs + 1))
    at = np.where(place < 0, n_pairs, place)[:, None]
    source = np.where(order < at, order + 1, np.where(order == at, 0, order))
    source = np.concatenate((source, np.zeros((len(place), 1), dtype=np.int64)), axis=1)
    rows = np.arange(len(place))[:, None]
    return _Motifs(motifs.tokens[rows, source], motifs.sizes[rows, source])
