"""Green's relations: which elements of a monoid can be turned into one another, and the groups inside it.

    a R b: a M = b M      a L b: M a = M b      a J b: M a M = M b M      H = R and L

In a finite monoid J is the join of R and L (Green's D). The H class of an idempotent is a maximal subgroup, and those of one J
class are isomorphic. Source: J. A. Green, "On the structure of semigroups", 1951.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray
from statetrack.automata.components import strong_components
from statetrack.automata.groups import Group
from statetrack.automata.monoid import TransitionMonoid
from statetrack.automata.subgroups import is_solvable


@dataclass(frozen=True)
class GreenClasses:
    """The class of each element, numbered from 0, under each of the relations.

    Attributes:
        r: ``(size,)``, equal where ``a M = b M``. A lower number never leads up to a higher one by multiplication on the right.
        l: ``(size,)``, equal where ``M a = M b``.
        j: ``(size,)``, equal where ``M a M = M b M``.
        h: ``(size,)``, equal where both ``r`` and ``l`` are.
    """

    r: IntArray
    l: IntArray  # noqa: E741
    j: IntArray
    h: IntArray


def green_classes(monoid: TransitionMonoid) -> GreenClasses:
    """Green's classes of a transition monoid.

    >>> from statetrack.automata import from_regex, transition_monoid
    >>> green = green_classes(transition_monoid(from_regex("(ab)*", "ab")))
    >>> [len(set(labels.tolist())) for labels in (green.r, green.l, green.j, green.h)]
    [4, 4, 3, 6]
    """
    r, l = strong_components(monoid.right), strong_components(monoid.left)  # noqa: E741
    h = np.unique(r * monoid.size + l, return_inverse=True)[1].ravel()
    return GreenClasses(r=r, l=l, j=_j_classes(monoid), h=h)


@dataclass(frozen=True, eq=False)
class MaximalSubgroup:
    """The largest group around an idempotent of a transition monoid.

    Attributes:
        monoid: the monoid.
        idempotent: id of the identity of the group.
        elements: sorted ids of the elements of the group.
    """

    monoid: TransitionMonoid
    idempotent: int
    elements: IntArray

    @property
    def order(self) -> int:
        """Number of elements."""
        return self.elements.size

    @property
    def points(self) -> npt.NDArray[np.integer]:
        """The states that the group permutes: the image of its identity, sorted. Their number is its rank."""
        return np.unique(self.monoid.elements[self.idempotent])

    @cached_property
    def group(self) -> Group:
        """The group as permutations of ``points``; its products read from right to left, those of the monoid the other way."""
        rows = self._permutations(self.elements)
        in_order = np.lexsort(rows.T[::-1])
        generators = self._permutations(np.array(list(self._generators()), dtype=np.int64))
        ids = [int(np.flatnonzero((rows[in_order] == row).all(axis=1))[0]) for row in generators]
        return Group(f"subgroup of order {self.order}", rows[in_order], tuple(ids))

    def _permutations(self, elements: IntArray) -> IntArray:
        return np.searchsorted(self.points, self.monoid.elements[elements][:, self.points])

    def _generators(self) -> Iterator[int]:
        """A few elements that generate the group: each one doubles what the earlier ones generate."""
        kept, inside = [], np.array([self.idempotent])
        while (left := np.setdiff1d(self.elements, inside, assume_unique=True)).size:
            kept.append(int(left[0]))
            yield kept[-1]
            inside = self.monoid.closure(kept)


def maximal_subgroups(monoid: TransitionMonoid) -> tuple[MaximalSubgroup, ...]:
    """One maximal subgroup for each J class that has any, those of the largest rank first; every other one is isomorphic to one.

    >>> from statetrack.automata import Automaton, transition_monoid
    >>> full = transition_monoid(Automaton([[1, 1, 0], [2, 0, 0], [0, 2, 2]], [0, 1, 2]))
    >>> [(len(s.points), s.order) for s in maximal_subgroups(full)]
    [(3, 6), (2, 2), (1, 1)]
    """
    if monoid.is_group:
        return (MaximalSubgroup(monoid, 0, np.arange(monoid.size)),)
    j = _j_classes(monoid)
    by_class = np.argsort(j, kind="stable")
    first = np.searchsorted(j[by_class], np.arange(j.max() + 2))
    _, which = np.unique(j[monoid.idempotents], return_index=True)
    found = []
    for e in monoid.idempotents[which].tolist():
        members = by_class[first[j[e]] : first[j[e] + 1]]
        rows, identity = monoid.elements[members], monoid.elements[e]
        inside = (identity[rows] == rows).all(axis=1) & (rows[:, identity] == rows).all(axis=1)
        found.append(MaximalSubgroup(monoid, e, np.sort(members[inside])))
    return tuple(sorted(found, key=lambda s: (-len(s.points), s.idempotent)))


def is_solvable_monoid(monoid: TransitionMonoid) -> bool:
    """Whether every group in the monoid is solvable."""
    return monoid.is_aperiodic or all(is_solvable(s.group) for s in maximal_subgroups(monoid) if s.order > 1)


def _j_classes(monoid: TransitionMonoid) -> IntArray:
    return strong_components(np.concatenate([monoid.right, monoid.left], axis=1))
