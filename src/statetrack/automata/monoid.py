"""The transition monoid of an automaton: all maps of the states that words induce.

    m_w[q] = state that the word w leads to from q ;   (m v)[q] = v[m[q]], first m then v

Every question about what an automaton asks of a recurrence (is there a group in it, is that group solvable) is one about its
monoid. Products are written in reading order, as words are; ``Group`` writes them the other way round, which gives the opposite
group, an isomorphic one. Source: J.-E. Pin, "Varieties of Formal Languages", 1986.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray, as_ids, frozen
from statetrack.automata.automaton import Automaton
from statetrack.automata.permutations import period
from statetrack.automata.search import breadth_first
from statetrack.errors import InvalidInputError

MAX_ELEMENTS = 200_000
_MAX_ENTRIES = 1 << 25  # elements times states
_MAX_TABLE = 4096
_BLOCK = 1 << 20  # products computed at once


class TooLargeError(InvalidInputError):
    """A monoid, or a structure made from it, with more elements than the limit: nothing follows about the automaton."""


@dataclass(frozen=True, eq=False, repr=False)
class TransitionMonoid:
    """The maps that words induce on the states, each with the first of its shortest words. ``transition_monoid`` makes one.

    Elements are numbered by length and then alphabet of that word; the identity (the empty word) is 0.

    Attributes:
        elements: ``(size, n_states)`` whole numbers of a small dtype, row ``i`` is the map with id ``i``. Read-only.
        letters: ``(n_symbols,)`` int64, id of the map of each symbol.
        generators: ids of elements that generate the monoid, few if the alphabet is large.
    """

    elements: npt.NDArray[np.integer]
    letters: IntArray
    generators: tuple[int, ...]
    _parents: IntArray
    _last: IntArray

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.elements.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states that the maps act on."""
        return int(self.elements.shape[1])

    def word(self, element: int) -> tuple[int, ...]:
        """The symbols of the first of the shortest words that induce an element.

        Raises:
            InvalidInputError: no such element.
        """
        at, word = int(as_ids(element, "element", self.size, ndim=0)), []
        while at:
            word.append(int(self._last[at]))
            at = int(self._parents[at])
        return tuple(reversed(word))

    def multiply(self, first: npt.ArrayLike, then: npt.ArrayLike) -> IntArray:
        """Ids of the products "``first``, then ``then``"; id arrays that broadcast together.

        Raises:
            InvalidInputError: ids out of range.
        """
        first_, then_ = as_ids(first, "first", self.size), as_ids(then, "then", self.size)
        return self._codes.ids(self.elements[then_[..., None], self.elements[first_][..., self._codes.points]])

    def index(self, maps: npt.ArrayLike) -> IntArray:
        """Ids ``(...)`` of maps ``(..., n_states)``.

        Raises:
            InvalidInputError: a map that no word induces.
        """
        rows = as_ids(maps, "maps", self.n_states)
        if rows.ndim == 0 or rows.shape[-1] != self.n_states:
            raise InvalidInputError(f"maps must have {self.n_states} images on the last axis, but has shape {rows.shape}.")
        ids = self._codes.ids(rows[..., self._codes.points])
        foreign = (self.elements[ids] != rows).any(axis=-1)
        if foreign.any():
            raise InvalidInputError(f"{rows[foreign][0].tolist()} is not induced by any word.")
        return ids

    def closure(self, ids: npt.ArrayLike) -> IntArray:
        """Sorted ids of the semigroup that the elements ``ids`` generate (without the identity unless it is a product)."""
        generators = np.unique(as_ids(ids, "ids", self.size))
        seen, frontier = np.zeros(self.size, dtype=bool), generators
        while frontier.size:
            seen[frontier] = True
            frontier = np.unique(self.multiply(frontier[:, None], generators))
            frontier = frontier[~seen[frontier]]
        return np.flatnonzero(seen)

    @cached_property
    def table(self) -> IntArray:
        """``(size, size)`` int64: ``table[a, b]`` is the id of "``a``, then ``b``". Read-only; made when first asked for.

        Raises:
            TooLargeError: more than 4,096 elements; ``multiply`` gives single products.
        """
        if self.size > _MAX_TABLE:
            raise TooLargeError(f"The table of {self.size:,} elements is too large to write down; use multiply.")
        ids, rows = np.arange(self.size), max(1, _BLOCK // self.size)
        parts = [self.multiply(ids[first : first + rows, None], ids) for first in range(0, self.size, rows)]
        return frozen(np.concatenate(parts))

    @cached_property
    def right(self) -> IntArray:
        """``(size, n_generators)`` int64: an element, then a generator. Read-only."""
        return frozen(self.multiply(np.arange(self.size)[:, None], self.generators))

    @cached_property
    def left(self) -> IntArray:
        """``(size, n_generators)`` int64: a generator, then an element. Read-only."""
        return frozen(self.multiply(self.generators, np.arange(self.size)[:, None]))

    @cached_property
    def ranks(self) -> IntArray:
        """``(size,)`` int64, the number of states in the image of each element. Read-only."""
        in_order = np.sort(self.elements, axis=1)
        return frozen(1 + (in_order[:, 1:] != in_order[:, :-1]).sum(axis=1))

    @cached_property
    def idempotents(self) -> IntArray:
        """Sorted ids of the elements with ``e e = e``. Read-only."""
        return frozen(np.flatnonzero((_then(self.elements, self.elements) == self.elements).all(axis=1)))

    @cached_property
    def periodic(self) -> IntArray:
        """Sorted ids of the elements whose high powers do not settle: ``m^k != m^(k+1)`` for all k. Read-only."""
        high, exponent = self.elements, 1
        while exponent < self.n_states:
            high, exponent = _then(high, high), 2 * exponent
        return frozen(np.flatnonzero((_then(high, self.elements) != high).any(axis=1)))

    def period(self, element: int) -> int:
        """The least ``p >= 1`` with ``m^(k+p) = m^k`` for all large k.

        Raises:
            InvalidInputError: no such element.
        """
        return period(self.elements[int(as_ids(element, "element", self.size, ndim=0))].astype(np.int64))

    @cached_property
    def is_group(self) -> bool:
        """Whether every symbol permutes the states."""
        return bool((self.ranks[self.letters] == self.n_states).all())

    @cached_property
    def is_aperiodic(self) -> bool:
        """Whether no subset of the monoid is a non-trivial group (the automaton is star-free, or counter-free)."""
        return self.size == 1 if self.is_group else self.periodic.size == 0

    @cached_property
    def is_reset(self) -> bool:
        """Whether every symbol leaves the state as it is or sets it to one that does not depend on it."""
        return bool(((self.letters == 0) | (self.ranks[self.letters] == 1)).all())

    @cached_property
    def _codes(self) -> _Codes:
        return _Codes.of(self.elements)

    def __repr__(self) -> str:
        return f"TransitionMonoid(size={self.size}, n_states={self.n_states}, n_symbols={self.letters.size})"


@dataclass(frozen=True)
class _Codes:
    """Numbers that tell the rows of a table apart, found from their entries at a few points.

    Attributes:
        points: columns that are looked at.
        weights: weight of each.
        in_order: the codes, increasing.
        owners: the row of each of them.
    """

    points: IntArray
    weights: npt.NDArray[np.uint64]
    in_order: npt.NDArray[np.uint64]
    owners: IntArray

    @classmethod
    def of(cls, rows: npt.NDArray[np.integer]) -> _Codes:
        points = _telling_points(rows)
        generator = np.random.Generator(np.random.PCG64(0))
        while True:  # two rows get the same code with a chance below 1e-9
            weights = _weights(points.size, generator)
            codes = rows[:, points].astype(np.uint64) @ weights
            owners = np.argsort(codes)
            if (np.diff(codes[owners]) != 0).all():
                return cls(points, weights, codes[owners], owners)

    def ids(self, images: npt.NDArray[np.integer]) -> IntArray:
        """The rows with ``images (..., n_points)`` at the points, which some row must have."""
        found = np.searchsorted(self.in_order, images.astype(np.uint64) @ self.weights)
        return self.owners[np.minimum(found, self.owners.size - 1)]


def transition_monoid(automaton: Automaton, max_elements: int = MAX_ELEMENTS) -> TransitionMonoid:
    """The transition monoid of an automaton as it is; that of ``minimise(automaton)`` depends on its behaviour alone.

    Raises:
        TooLargeError: more than ``max_elements`` elements, or more than 2^25 elements times states.

    >>> flip_flop = Automaton([[0, 0, 1], [1, 0, 1]], [0, 1])  # keep, set 0, set 1
    >>> transition_monoid(flip_flop).size
    3
    """
    dtype = np.min_scalar_type(automaton.n_states - 1)
    maps, symbols, which = np.unique(automaton.transitions.T.astype(dtype), axis=0, return_index=True, return_inverse=True)
    by_symbol = np.argsort(symbols)  # distinct maps in the order of the symbols that first induce them
    maps, symbols = maps[by_symbol], symbols[by_symbol]
    which = np.argsort(by_symbol)[which.ravel()]
    found, few = _generated(maps, min(max_elements, _MAX_ENTRIES // automaton.n_states))
    codes = _Codes.of(found)

    def successors(ids: IntArray) -> IntArray:
        return codes.ids(maps[:, found[ids][:, codes.points]].swapaxes(0, 1))

    levels = list(breadth_first(successors, 0, len(found)))
    order = np.concatenate([level.nodes for level in levels])
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    ids = number[codes.ids(maps[:, codes.points])]
    elements = np.ascontiguousarray(found[order])
    elements.setflags(write=False)
    steps = np.concatenate([level.symbols for level in levels])
    return TransitionMonoid(
        elements=elements,
        letters=frozen(ids[which]),
        generators=tuple(ids[few].tolist()),
        _parents=np.concatenate([level.parents for level in levels]),
        _last=np.where(steps < 0, -1, symbols[steps]),
    )


def _generated(maps: npt.NDArray[np.integer], limit: int) -> tuple[npt.NDArray[np.integer], list[int]]:
    """All products of ``maps (k, n)`` with the identity first, and which of the maps are enough to make them."""
    generator = np.random.Generator(np.random.PCG64(0))
    few: list[int] = []
    rows = _Rows(np.arange(maps.shape[1], dtype=maps.dtype)[None], _weights(maps.shape[1], generator))
    for i, letter in enumerate(maps):
        if not rows.add(letter[None]).size:
            continue
        few.append(i)
        fresh = np.concatenate([letter[None], rows.add(letter[rows.rows[:-1]])])
        while fresh.size:
            if len(rows.rows) > limit:
                raise TooLargeError(
                    f"The transition monoid has more than {limit:,} elements; nothing is decided about this automaton."
                )
            fresh = rows.add(np.concatenate([maps[j][fresh] for j in few]))
    return rows.rows.copy(), few


class _Rows:
    """A growing set of distinct rows; codes find candidates, and the rows themselves decide."""

    def __init__(self, rows: npt.NDArray[np.integer], weights: npt.NDArray[np.uint64]) -> None:
        self._store, self._size, self.weights = rows, len(rows), weights
        self._in_order, self._owners = self._code(rows), np.zeros(1, dtype=np.int64)

    @property
    def rows(self) -> npt.NDArray[np.integer]:
        """All rows, in the order in which they came."""
        return self._store[: self._size]

    def _code(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
        return np.asarray(rows.astype(np.uint64) @ self.weights)

    def add(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Take in rows; returns those that are new, each once."""
        codes, first, which = np.unique(self._code(rows), return_index=True, return_inverse=True)
        distinct = rows[first]
        place = np.minimum(np.searchsorted(self._in_order, codes), self._in_order.size - 1)
        known = self._in_order[place] == codes
        if (distinct[which.ravel()] != rows).any() or (self.rows[self._owners[place[known]]] != distinct[known]).any():
            raise RuntimeError("Two different maps have the same 64-bit code.")  # a chance below 1e-9
        fresh, codes = distinct[~known], codes[~known]
        if not codes.size:
            return fresh
        owners = self._size + np.arange(len(fresh))
        slots = np.searchsorted(self._in_order, codes)
        self._in_order = np.insert(self._in_order, slots, codes)
        self._owners = np.insert(self._owners, slots, owners)
        if self._size + len(fresh) > len(self._store):
            self._store = np.concatenate([self.rows, np.empty_like(self.rows), fresh])
        self._store[self._size : self._size + len(fresh)] = fresh
        self._size += len(fresh)
        return fresh


def _weights(n: int, generator: np.random.Generator) -> npt.NDArray[np.uint64]:
    return generator.integers(0, 1 << 64, size=n, dtype=np.uint64)


def _then(first: npt.NDArray[np.integer], then: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Row-wise products of two tables of maps."""
    return np.take_along_axis(then, first.astype(np.intp), axis=1)


def _telling_points(rows: npt.NDArray[np.integer]) -> IntArray:
    """Columns whose entries together tell every two rows apart."""
    points: list[int] = []
    label, n_labels = np.zeros(len(rows), dtype=np.int64), 1
    for point in range(rows.shape[1]):
        values, finer = np.unique(label * rows.shape[1] + rows[:, point], return_inverse=True)
        if values.size > n_labels:
            points.append(point)
            label, n_labels = finer, values.size
        if n_labels == len(rows):
            break
    return np.array(points, dtype=np.int64)
