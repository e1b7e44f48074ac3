"""A solvable group as a cascade of counters: what each level counts, and what it is told by the symbol and the levels above.

    G = N_0 > N_1 > ... > N_k = 1 ,   N_{i-1} / N_i = C_{m_1} x C_{m_2} x ...
    y = r_k ... r_1 ,   r_i in N_{i-1} stands for the coset N_i r_i
    u_1 = x ,   r_i' = rep(r_i u_i) ,   u_{i+1} = r_i u_i r_i'^{-1}

Symbols multiply from the right, ``y <- y x``, hence right cosets: level i then adds the residues of u_i, which depends on the
symbol and on the levels above alone. A stack sees the levels after the symbol, which tells as much: ``r_i = rep(r_i' u_i^{-1})``.

Letters: G = group, N = terms of a series, x = symbol, y = running product, r = representatives, u = what a level multiplies by,
m = orders of cyclic factors (powers of primes, which keeps their elements far apart). Source: arXiv 2603.01959; coset order
derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from statetrack.automata import Group, abelian_invariants, quotient, subgroup
from statetrack.automata.arrays import IntArray
from statetrack.automata.invariants import prime_factors


@dataclass(frozen=True)
class Level:
    """One abelian factor of a series.

    Attributes:
        classes: ``(order,)`` the coset of each element of ``N_{i-1}`` in it, -1 for elements outside; the identity's is 0.
        representatives: ``(n_classes,)`` ids of elements, one for each coset.
        residues: ``(n_classes, J)`` the coset as a tuple of residues.
        moduli: ``(J,)`` orders of the cyclic factors.
    """

    classes: IntArray
    representatives: IntArray
    residues: IntArray
    moduli: tuple[int, ...]

    @property
    def n_classes(self) -> int:
        """Order of the factor group."""
        return int(self.representatives.size)

    def representative(self, ids: IntArray) -> IntArray:
        """Of the cosets of elements of ``N_{i-1}``."""
        return self.representatives[self.classes[ids]]


@dataclass(frozen=True)
class Cascade:
    """The levels of a group, the top one first; ``cascade`` makes one.

    Attributes:
        group: the group.
        levels: its levels.
    """

    group: Group
    levels: tuple[Level, ...]

    def places(self) -> IntArray:
        """``(order, n_levels)`` which coset each level holds when the product is that element."""
        left, found = np.arange(self.group.order), []
        for level in self.levels:
            found.append(level.classes[left])
            left = self.group.multiply(left, self.group.inverses[level.representative(left)])
        return np.stack(found, axis=1)

    def told(self, symbols: IntArray, depth: int) -> tuple[IntArray, IntArray]:
        """What level ``depth`` (from 0) multiplies by.

        Args:
            symbols: ``(n,)`` ids of elements.
            depth: the level.

        Returns:
            The places ``(m, depth)`` that the levels above can hold after a symbol, and for each of them the coset ``(m, n)``, in
            the factor group of the level, of what each symbol makes it multiply by.
        """
        g = self.group
        above = itertools.product(*(range(level.n_classes) for level in self.levels[:depth]))
        places = np.array(list(above), dtype=np.int64).reshape(-1, depth)
        told = np.tile(symbols, (len(places), 1))
        for i, level in enumerate(self.levels[:depth]):
            after = level.representatives[places[:, i : i + 1]]
            before = level.representative(g.multiply(after, g.inverses[told]))
            told = g.multiply(g.multiply(before, told), g.inverses[after])
        return places, self.levels[depth].classes[told]


def cascade(group: Group, series: Sequence[IntArray]) -> Cascade:
    """The cascade of a group along a series that ends in the trivial group and has abelian factors."""
    return Cascade(group, tuple(_level(group, top, below) for top, below in itertools.pairwise(series)))


def _level(group: Group, top: IntArray, below: IntArray) -> Level:
    least = group.multiply(below[:, None], top).min(axis=0)  # names the coset; the identity's is 0
    representatives, classes_ = np.unique(least, return_inverse=True)
    classes = np.full(group.order, -1, dtype=np.int64)
    classes[top] = classes_.ravel()
    table = classes[group.multiply(representatives[:, None], representatives)]
    factor = _as_group(group, top, below)
    moduli, residues = _coordinates(table, abelian_invariants(factor))
    return Level(classes, representatives, residues, moduli)


def _as_group(group: Group, top: IntArray, below: IntArray) -> Group:
    inside = subgroup(group, top)
    return quotient(inside, np.searchsorted(top, below))


def _coordinates(table: IntArray, orders: tuple[int, ...]) -> tuple[tuple[int, ...], IntArray]:
    """Residues ``(n, J)`` of the elements of an abelian group given by its table, modulo powers of primes."""
    n = len(table)
    if n == 1:
        return (1,), np.zeros((1, 1), dtype=np.int64)  # one phasor that never turns
    powers = np.zeros((n, max(orders) + 1), dtype=np.int64)
    for e in range(1, powers.shape[1]):
        powers[:, e] = table[powers[:, e - 1], np.arange(n)]
    basis = _basis(table, powers, tuple(reversed(orders)), (), np.zeros(1, dtype=np.int64))
    assert basis is not None  # an abelian group is the product of cyclic groups of its invariants
    moduli, columns = [], []
    element = np.zeros((1,) * len(orders), dtype=np.int64)
    for axis, (b, order) in enumerate(zip(basis, reversed(orders), strict=True)):
        shape = [1] * len(orders)
        shape[axis] = order
        element = table[element, powers[b, :order].reshape(shape)]
    places = np.array(np.unravel_index(np.argsort(element.ravel()), element.shape)).T.reshape(n, -1)
    for axis, order in enumerate(reversed(orders)):
        for p, exponent in prime_factors(order).items():
            moduli.append(p**exponent)
            columns.append(places[:, axis] % p**exponent)
    return tuple(moduli), np.array(columns, dtype=np.int64).T


def _basis(
    table: IntArray, powers: IntArray, orders: tuple[int, ...], chosen: tuple[int, ...], inside: IntArray
) -> tuple[int, ...] | None:
    """Elements of given orders that are independent, the largest order first."""
    if not orders:
        return chosen
    order = orders[0]
    for candidate in range(len(table)):
        cyclic = powers[candidate, : order + 1]
        if cyclic[order] != 0 or any(cyclic[order // p] == 0 for p in prime_factors(order)):
            continue
        product = np.unique(table[inside[:, None], cyclic[:order]])
        if product.size == inside.size * order:
            found = _basis(table, powers, orders[1:], (*chosen, candidate), product)
            if found is not None:
                return found
    return None


def turns(level: Level) -> IntArray:
    """The residues of the level's cosets in the range ``-m/2 < r <= m/2``, so that inverse elements turn by opposite angles."""
    m = np.array(level.moduli)
    half = level.residues % m
    return np.where(2 * half > m, half - m, half)


def common_period(built: Cascade) -> int:
    """The least common multiple of all moduli, at least 2."""
    return math.lcm(2, *(m for level in built.levels for m in level.moduli))
