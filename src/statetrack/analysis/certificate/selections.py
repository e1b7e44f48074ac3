"""Which selections ``P(u)`` a PD layer may take, as far as float32 settles it.

Training drives scores towards ties, so it happens that rounding decides between two maps. Then both are followed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from statetrack.analysis.certificate.intervals import FUNCTION, UNIT, Array, Interval, cat, linear
from statetrack.analysis.certificate.modules import bounds
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.layers.flash_pd_ssm import FlashPDSSM
from statetrack.layers.pd_ssm import PDSSM
from statetrack.layers.selective import SelectiveLayer

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Selections = Callable[[Interval, BoolArray], tuple[IntArray, IntArray]]
"""From inputs ``(B, E)`` and which entries of the state ``(B, G, N)`` hold something to all selections that may apply: the case
``(B',)`` of each and its maps ``(B', G, N)``. Maps that differ only where nothing is held count as one."""

_MOST, _MOST_OF_ALL = 4096, 200_000
"""Selections followed from one case, and from all of a batch."""


def selections_of(layer: SelectiveLayer, heads: IntArray) -> Selections | None:
    """The selections of some heads; None for a layer without any."""
    if isinstance(layer, FlashPDSSM):
        return _Routed(layer, heads)
    if isinstance(layer, PDSSM):
        return _Mixed(layer, heads)
    return None


def may_be_largest(scores: Interval, axis: int) -> BoolArray:
    """Which entries along an axis may be the largest."""
    return np.asarray(scores.hi >= scores.lo.max(axis, keepdims=True))


class _Selections(ABC):
    """Selections that are settled place by place: columns choose a row, or rows a column.

    Args:
        layer: the layer.
        heads: which of its heads.
    """

    def __init__(self, layer: FlashPDSSM | PDSSM, heads: IntArray) -> None:
        self.layer, self.heads, self.column = layer, heads, layer.orientation == "column"
        self.scores = Interval.point(layer.scores).lo
        self.known: dict[bytes, list[IntArray]] = {}

    def __call__(self, u: Interval, held: BoolArray) -> tuple[IntArray, IntArray]:
        rows, maps = [], []
        for case, (tables, full) in enumerate(zip(self._tables(u), held, strict=True)):
            options = [self._options(table, entries) for table, entries in zip(tables, full, strict=True)]
            _limit(options)
            for chosen in product(*options):
                rows.append(case)
                maps.append(chosen)
            if len(rows) > _MOST_OF_ALL:
                raise Undecided(f"more than {_MOST_OF_ALL} selections are tied within rounding")
        return np.array(rows), np.array(maps)

    @abstractmethod
    def _tables(self, u: Interval) -> Iterable[list[list[BoolArray]]]:
        """For each case and head the tables ``[alternative, place]``, one of which applies, of what may be chosen."""

    def _logits(self, u: Interval) -> Interval:
        shape = (len(u.lo), self.layer.n_heads, -1)
        return bounds(self.layer.router, u).map(lambda end: end.reshape(shape)[:, self.heads])

    def _chosen(self, scores: Interval) -> BoolArray:
        """``[..., alternative, place]`` from scores ``(..., N, N)``."""
        found = may_be_largest(scores, -2 if self.column else -1)
        return found if self.column else found.swapaxes(-1, -2)

    def _options(self, tables: list[BoolArray], full: BoolArray) -> list[IntArray]:
        """All maps of one head."""
        key = b"".join(table.tobytes() for table in tables) + full.tobytes()
        if key not in self.known:
            found = [kept for table in tables for kept in _maps(table, full, self.column)]
            self.known[key] = list({kept.tobytes(): kept for kept in found}.values())
        return self.known[key]


class _Routed(_Selections):
    """Flash PD-SSM: one of K maps per head."""

    def __init__(self, layer: FlashPDSSM, heads: IntArray) -> None:
        super().__init__(layer, heads)
        self.choices = self._chosen(Interval.point(self.scores))

    def _tables(self, u: Interval) -> Iterable[list[list[BoolArray]]]:
        for routes in may_be_largest(self._logits(u), -1):
            yield [[self.choices[head, k] for k in np.flatnonzero(own)] for head, own in zip(self.heads, routes, strict=True)]


class _Mixed(_Selections):
    """PD-SSM: the largest entries of a mixture of K matrices per head."""

    def _tables(self, u: Interval) -> Iterable[list[list[BoolArray]]]:
        weights, n = softmax_bounds(self._logits(u)), self.scores.shape[-1]
        mixed = [linear(weights[:, i], self.scores[h].reshape(-1, n * n).T)[:, None] for i, h in enumerate(self.heads)]
        choices = self._chosen(cat(mixed, axis=1).map(lambda end: end.reshape(len(end), len(self.heads), n, n)))
        for by_head in choices:
            yield [[table] for table in by_head]


def _maps(table: BoolArray, full: BoolArray, column: bool) -> Iterable[IntArray]:
    """All maps that choose an alternative where ``table[alternative, place]`` holds.

    Those that do the same to a state have one spelling: sources of nothing go to 0, or are read as N.
    """
    n = len(full)
    nothing = np.zeros(1, dtype=np.int64)
    if column:
        per_place = [np.flatnonzero(table[:, place]) if full[place] else nothing for place in range(n)]
    else:
        per_place = [np.unique(np.where(full[may], may, n)) for may in map(np.flatnonzero, table.T)]
    _limit(per_place)
    return (np.array(chosen) for chosen in product(*per_place))


def _limit(options: Sequence[Sequence[IntArray] | IntArray]) -> None:
    if math.prod(map(len, options)) > _MOST:
        raise Undecided(f"more than {_MOST} selections are tied within rounding")


def softmax_bounds(logits: Interval) -> Interval:
    """Softmax along the last axis: ``1 / sum_j exp(l_j - l_k)``, extreme where one logit is at one end and the others at the
    other."""

    def weight(own: Array, others: Array) -> Array:
        gaps = np.exp(np.minimum(others[..., None, :] - own[..., :, None], 700))
        np.einsum("...kk->...k", gaps)[...] = 1
        return np.asarray(1 / gaps.sum(-1))

    value = Interval(weight(logits.lo, logits.hi), weight(logits.hi, logits.lo))
    return value.widened(FUNCTION + logits.shape[-1] * UNIT)  # weights are at most 1, so errors may be absolute
