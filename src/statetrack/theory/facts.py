"""What the theorems ask about an automaton, each found when first asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from statetrack.automata import (
    Automaton,
    Group,
    Holonomy,
    ImageSets,
    TooLargeError,
    TransitionMonoid,
    abelian_invariants,
    composition_factors,
    derived_series,
    elementary_series,
    exponent,
    faithful_degree,
    group_name,
    holonomy,
    image_sets,
    minimal_generators,
    minimise,
    p_group_prime,
    subgroup,
    transition_monoid,
)
from statetrack.automata import group as group_called
from statetrack.automata.arrays import IntArray
from statetrack.automata.holonomy import Component
from statetrack.automata.images import ImageClass
from statetrack.automata.once import once
from statetrack.automata.permutations import period
from statetrack.theory.witness import Cascade, InnerGroup, PeriodicWord, Series, Size

_MAX_PAIRS = 50_000_000
_MAX_ORDERED = 5_000  # elements of monoids in which orders of symbols are compared
_MAX_NAMED = 2520  # naming the terms of a series of a larger group takes too long to be worth it


class Split(NamedTuple):
    """An automaton told by a permutation automaton and the last symbols.

    Attributes:
        permutations: the automaton that every symbol permutes.
        memory: how many of the last symbols are needed beside it.
    """

    permutations: Automaton
    memory: int


class Facts:
    """The algebra of the minimal automaton with the behaviour of a given one.

    Attributes:
        automaton: the minimal automaton; all facts are about it.
        maps: ``(k, n_states)`` the different maps of its symbols.

    Properties raise ``TooLargeError`` where the automaton is too large to decide.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = minimise(automaton)
        self.maps: IntArray = np.unique(self.automaton.transitions.T, axis=0)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.automaton.n_states

    @property
    def size(self) -> Size:
        """States and different symbols."""
        return Size(self.n_states, len(self.maps))

    @once
    def images(self) -> ImageSets:
        """Image sets and the groups that act on them."""
        return image_sets(self.automaton)

    @once
    def cascade(self) -> Holonomy:
        """The holonomy decomposition."""
        return holonomy(self.automaton, self.images)

    @cached_property
    def monoid_size(self) -> int | None:
        """Number of elements of the transition monoid, None if there are more than 200,000."""
        try:
            return transition_monoid(self.automaton).size
        except TooLargeError:
            return None

    @cached_property
    def is_tokenwise(self) -> bool:
        """Whether the last symbol alone tells the state, so that no recurrence is needed."""
        return bool((self.maps == self.maps[:, :1]).all())

    @cached_property
    def is_reset(self) -> bool:
        """Whether every symbol keeps the state or sets it."""
        return bool(((self.maps == self.maps[:, :1]).all(axis=1) | (self.maps == np.arange(self.n_states)).all(axis=1)).all())

    @property
    def is_unary(self) -> bool:
        """Whether all symbols act alike, so that the state depends on the length alone."""
        return len(self.maps) == 1

    @cached_property
    def is_group(self) -> bool:
        """Whether every symbol permutes the states."""
        return bool((np.sort(self.maps, axis=1) == np.arange(self.n_states)).all())

    @once
    def group(self) -> Group:
        """The group of all words; only for an automaton that is one."""
        return self.images.classes[0].group if self.n_states > 1 else group_called("C1")

    @cached_property
    def letters(self) -> IntArray:
        """Ids in ``group`` of the different symbols, the identity left out."""
        ids = self.group.index(self.maps)
        return ids[ids != 0]

    @cached_property
    def inner(self) -> tuple[ImageClass, ...]:
        """The classes of image sets that words permute."""
        return tuple(c for c in self.images.classes if not c.is_trivial)

    @cached_property
    def letter_periods(self) -> list[int]:
        """For each different symbol, the period with which its repetitions permute the states where they settle."""
        return [period(step) for step in self.maps]

    @once
    def split(self) -> Split | None:
        """The automaton as one that symbols permute beside a bounded memory of the last symbols, if it is that.

        It is if no two states are kept apart by some endless word and merged by another one.
        """
        n = self.n_states
        if self.is_group:
            return Split(self.automaton, 0)
        if n * n * len(self.maps) > _MAX_PAIRS:
            raise TooLargeError(f"The automaton has {n:,} states; pairs of states are followed only in smaller ones.")
        p, q = np.divmod(np.arange(n * n), n)
        after = self.maps[:, p] * n + self.maps[:, q]
        merged = p == q
        apart = ~merged  # by some word of a length that grows with the loop
        memory = 0
        while (still := apart & apart[after].any(axis=0)).sum() < apart.sum():
            apart, memory = still, memory + 1
        while (more := merged | merged[after].any(axis=0)).sum() > merged.sum():
            merged = more
        if (apart & merged).any():
            return None
        first = np.array([np.flatnonzero(~row)[0] for row in apart.reshape(n, n)])  # states that are merged share it
        heads, blocks = np.unique(first, return_inverse=True)
        table = blocks.ravel()[self.maps[:, heads]]
        return Split(Automaton(table.T, np.arange(heads.size), int(blocks.ravel()[self.automaton.start])), memory)

    @cached_property
    def forgets_order(self) -> bool:
        """Whether the order of two symbols never matters once a word with all of them is repeated often.

        In one diagonal layer a coordinate either shrinks under that word, or all its symbols turn the coordinate about one
        centre, in any order alike. Looked at for each pair of symbols and, up to six, for all of them; True for large monoids.
        """
        try:
            monoid = transition_monoid(self.automaton, _MAX_ORDERED)
        except TooLargeError:
            return True
        letters = np.unique(monoid.letters[monoid.letters != 0]).tolist()
        groups = list(itertools.combinations(letters, 2))
        groups += [tuple(letters)] if 2 < len(letters) <= 6 else []
        return all(_commutes_before_repetition(monoid, symbols) for symbols in groups)

    def periodic_word(self) -> PeriodicWord:
        """A short word that permutes some states; there must be one."""
        found = min((c for c in self.inner if c.loop), key=lambda c: len(c.loop or ()))
        word = found.loop or ()
        states = np.arange(self.n_states)
        for symbol in word:
            states = self.automaton.transitions[states, symbol]
        return PeriodicWord(self.spelt(word), period(states, found.points), found.points.size)

    def spelt(self, word: tuple[int, ...]) -> tuple[str, ...]:
        """A word in the names of symbols, or in their numbers if they have none."""
        names = self.automaton.symbols
        return tuple(names[symbol] if names else str(symbol) for symbol in word)

    def cascade_witness(self) -> Cascade:
        """The levels of the cascade, with the names of their groups."""
        return Cascade(tuple(tuple(named(c) for c in level if not c.is_trivial) for level in self.cascade.levels))

    def levels_at_most(self, layers: Callable[[Component], int | None]) -> int | None:
        """Layers for all levels of the cascade, one above the other.

        Args:
            layers: how many are enough for a part of a level that has a group, None if that is open. Without one it takes one.
        """
        total = 0
        for level in self.cascade.levels:
            needed = [1 if c.is_trivial else layers(c) for c in level]
            if None in needed:
                return None
            total += max(n for n in needed if n is not None)
        return total

    def summary(self) -> dict[str, Any]:
        """Facts for a reader, as JSON values; None where the automaton is too large to decide."""
        found: dict[str, Any] = {
            "states": self.n_states,
            "letters": len(self.maps),
            "is_group": self.is_group,
            "order": self.monoid_size,
            "aperiodic": _decided(lambda: self.images.is_aperiodic),
            "solvable": _decided(lambda: self.images.is_solvable),
            "derived_length": _decided(self._derived_length),
            "groups": _decided(lambda: sorted({named(c) for c in self.inner})),
            "definite_order": _decided(lambda: self.images.definite_order),
            "holonomy_levels": _decided(lambda: len(self.cascade.levels)),
        }
        if self.is_group and found["groups"] is not None:
            found["group"] = _decided(lambda: group_facts(self.group))
        return found

    def _derived_length(self) -> int | None:
        if not self.images.is_solvable:
            return None
        return max((len(derived_series(c.group)) - 1 for c in self.inner), default=0)


def facts_of(automaton: Automaton) -> Facts:
    """The facts about an automaton, kept for the next question."""
    return _facts_of(automaton, automaton.symbols)


@lru_cache(maxsize=32)
def _facts_of(automaton: Automaton, symbols: tuple[str, ...] | None) -> Facts:
    """Names do not count when automata are compared, but words are spelt in them."""
    return Facts(automaton)


def group_facts(group: Group) -> dict[str, Any]:
    """What is known of a group, as JSON values; degrees are None where the search takes too long."""
    prime = p_group_prime(group)
    return {
        "name": group_name(group),
        "order": group.order,
        "abelian": group.is_abelian,
        "exponent": exponent(group),
        "derived_series": [ids.size for ids in derived_series(group)],
        "composition_factors": [group_name(factor) for factor in composition_factors(group)],
        "p_group": prime,
        "frattini_series": [ids.size for ids in elementary_series(group, prime)] if prime else None,
        "least_generators": len(minimal_generators(group)),
        "complex_degree": faithful_degree(group),
        "real_degree": faithful_degree(group, "real"),
    }


@lru_cache(maxsize=64)
def inner_group(c: ImageClass) -> InnerGroup:
    """A group that permutes states, as a witness."""
    try:
        series = derived_series(c.group)
    except TooLargeError:
        return InnerGroup(named(c), c.points.size, "")
    return InnerGroup(named(c), c.points.size, group_name(subgroup(c.group, series[-1])))


def series_witness(group: Group, terms: list[IntArray]) -> Series:
    """A subnormal series with abelian factors as a witness."""
    groups = [f"order {ids.size}" if ids.size > _MAX_NAMED else group_name(subgroup(group, ids)) for ids in terms]
    factors = (abelian_invariants(group, top, bottom) for top, bottom in itertools.pairwise(terms))
    return Series(tuple(groups), tuple("x".join(f"C{n}" for n in orders) for orders in factors))


@lru_cache(maxsize=1024)
def named(part: ImageClass | Component) -> str:
    """What the group of a part of an automaton is called."""
    try:
        return group_name(part.group)
    except TooLargeError:
        return "a group of more than 10,000 elements"


def _commutes_before_repetition(monoid: TransitionMonoid, symbols: tuple[int, ...]) -> bool:
    """Whether ``a b t e = b a t e`` for symbols a, b, words t and idempotent words e over some symbols, all of which are in e."""
    seen = np.zeros((monoid.size, 1 << len(symbols)), dtype=bool)  # elements and the symbols in a word for them
    frontier = np.zeros((1, 2), dtype=np.int64)
    while frontier.size:
        seen[frontier[:, 0], frontier[:, 1]] = True
        elements = monoid.multiply(frontier[:, :1], symbols)
        contents = frontier[:, 1:] | (1 << np.arange(len(symbols)))
        frontier = np.unique(np.stack([elements.ravel(), contents.ravel()], axis=1), axis=0)
        frontier = frontier[~seen[frontier[:, 0], frontier[:, 1]]]
    repeated = np.intersect1d(monoid.idempotents, np.flatnonzero(seen[:, -1]))
    tails = np.unique(monoid.multiply(np.flatnonzero(seen.any(axis=1))[:, None], repeated))
    pairs = itertools.combinations(symbols, 2)
    return all(
        np.array_equal(monoid.multiply(monoid.multiply(a, b), tails), monoid.multiply(monoid.multiply(b, a), tails))
        for a, b in pairs
    )


def _decided(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except TooLargeError:
        return None
