"""Character tables of groups, and the least degree of a faithful representation.

    X_i(g) = trace of g in the i-th irreducible complex representation

The table is read off the common eigenvectors of the class algebra: with classes C_j and structure constants
``a_jik = #{(x, y) in C_j x C_i: x y = z}`` for any z in C_k, the matrices ``a_j`` commute, and the vectors
``(X(g_k) sqrt|C_k|)_k`` are an orthogonal basis of common eigenvectors. Source: W. Burnside, 1911; J.-P. Serre, "Linear
representations of finite groups", 1977.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray
from statetrack.automata.groups import Group
from statetrack.automata.invariants import abelian_invariants
from statetrack.automata.monoid import TooLargeError
from statetrack.automata.normal import conjugacy_classes, minimal_normal_subgroups

Field = Literal["real", "complex"]
MAX_CLASSES = 1000
_MAX_SEARCH = 20_000
_TOLERANCE = 1e-6
_TRIES = 20


@dataclass(frozen=True, eq=False)
class CharacterTable:
    """The irreducible representations of a group over one field.

    Attributes:
        group: the group.
        classes: ``(order,)`` conjugacy class of each element.
        values: ``(n_irreducible, n_classes)`` complex128, the trace of each class; real up to rounding over the reals.
        degrees: ``(n_irreducible,)`` int64, the size of the matrices, in increasing order.
    """

    group: Group
    classes: IntArray
    values: npt.NDArray[np.complex128]
    degrees: IntArray

    @cached_property
    def kernels(self) -> npt.NDArray[np.bool_]:
        """``(n_irreducible, n_classes)`` whether a class acts as the identity."""
        return np.asarray(np.abs(self.values - self.degrees[:, None]) < _TOLERANCE)

    def multiplicity(self, element: int, sign: int = 1) -> IntArray:
        """How often ``sign`` (1 or -1) is an eigenvalue of an element, for each representation, ``(n_irreducible,)``."""
        order = int(self.group.element_orders[element])
        if sign < 0 and order % 2:
            return np.zeros(len(self.values), dtype=np.int64)
        powers, last = np.zeros(1, dtype=np.int64), element  # the powers from 0 on, twice as many in each round
        while powers.size < order:
            powers = np.concatenate([powers, self.group.multiply(powers, last)])
            last = int(self.group.multiply(last, last))
        traces = self.values[:, self.classes[powers[:order]]]
        return np.rint((traces @ float(sign) ** np.arange(order)).real / order).astype(np.int64)


@lru_cache(maxsize=32)
def character_table(group: Group, field: Field = "complex") -> CharacterTable:
    """The irreducible representations of a group.

    Raises:
        TooLargeError: more than 1,000 conjugacy classes, or representations that rounding errors do not let us tell apart.

    >>> from statetrack.automata import group
    >>> character_table(group("S5")).degrees.tolist(), character_table(group("Q8"), "real").degrees.tolist()
    ([1, 1, 4, 4, 5, 5, 6], [1, 1, 1, 1, 4])
    """
    if field == "real":
        return _over_the_reals(character_table(group))
    classes = conjugacy_classes(group)
    _, first, sizes = np.unique(classes, return_index=True, return_counts=True)
    if sizes.size > MAX_CLASSES:
        raise TooLargeError(f"{group.name} has {sizes.size:,} conjugacy classes; tables are made for up to {MAX_CLASSES:,}.")
    draw = np.random.Generator(np.random.PCG64(0))
    inverse = classes[group.inverses[first]]
    for _ in range(_TRIES):
        weights = draw.standard_normal(sizes.size) + 1j * draw.standard_normal(sizes.size)
        weights = (weights + weights[inverse].conj()) / np.sqrt(sizes)  # makes the combination Hermitian
        matrix = np.zeros((sizes.size, sizes.size), dtype=complex)
        for k, z in enumerate(first.tolist()):  # x y = z for each x, so that y = x^-1 z
            np.add.at(matrix[:, k], classes[group.multiply(group.inverses, z)], weights[classes])
        matrix *= np.sqrt(sizes) / np.sqrt(sizes)[:, None]
        _, vectors = np.linalg.eigh(matrix)
        values = (vectors / np.sqrt(sizes)[:, None]).T
        values = values / values[:, :1]
        norms = (np.abs(values) ** 2 @ sizes).real / group.order
        degrees = np.rint(1 / np.sqrt(norms)).astype(np.int64)
        values = values * degrees[:, None]
        gram = (values * sizes) @ values.conj().T / group.order
        if (degrees**2).sum() == group.order and np.abs(gram - np.eye(sizes.size)).max() < _TOLERANCE:
            order = np.lexsort((*np.round(values, 6).real.T[::-1], degrees))
            return CharacterTable(group, classes, values[order].astype(np.complex128), degrees[order])
    raise TooLargeError(f"The representations of {group.name} could not be told apart numerically.")


def faithful_degree(group: Group, field: Field = "complex") -> int | None:
    """The least size of matrices that represent the group faithfully, or None where the search takes too long.

    >>> from statetrack.automata import group
    >>> [(faithful_degree(group(name)), faithful_degree(group(name), "real")) for name in ("C5", "A5", "Q8", "C2xC6")]
    [(1, 2), (3, 3), (2, 4), (2, 3)]
    """
    if group.is_abelian:
        return _abelian_degree(abelian_invariants(group), field)
    try:
        table = character_table(group, field)
    except TooLargeError:
        return None
    # A representation is faithful if none of the minimal normal subgroups acts trivially: cover them as cheaply as possible.
    normal = [np.unique(table.classes[ids]) for ids in minimal_normal_subgroups(group)]
    covers = [frozenset(i for i, cs in enumerate(normal) if not kernel[cs].all()) for kernel in table.kernels]
    cheapest: dict[frozenset[int], int] = {}
    for cover, degree in zip(covers, table.degrees.tolist(), strict=True):
        cheapest[cover] = min(degree, cheapest.get(cover, degree))
    done: set[frozenset[int]] = set()
    queue: list[tuple[int, int, frozenset[int]]] = [(0, 0, frozenset())]
    pushed = 0
    while queue and len(done) < _MAX_SEARCH:
        cost, _, covered = heapq.heappop(queue)
        if len(covered) == len(normal):
            return cost
        if covered in done:
            continue
        done.add(covered)
        for cover, degree in cheapest.items():
            if not cover <= covered:
                pushed += 1
                heapq.heappush(queue, (cost + degree, pushed, covered | cover))
    return None


def _abelian_degree(invariants: tuple[int, ...], field: Field) -> int:
    """Over the complex numbers one character for each cyclic factor; over the reals a plane, or a sign for a factor C_2."""
    if field == "complex":
        return len(invariants)
    odd = sum(n % 2 == 1 or _has_odd_prime(n) for n in invariants)
    even = sum(n % 2 == 0 for n in invariants)
    planes = max(odd, sum(n % 4 == 0 for n in invariants))
    return 2 * planes + max(0, even - planes)


def _has_odd_prime(n: int) -> bool:
    return n & (n - 1) != 0


def _over_the_reals(table: CharacterTable) -> CharacterTable:
    """Real representations stay, others pair with their conjugates or (quaternionic ones) with themselves."""
    squares = table.classes[table.group.multiply(np.arange(table.group.order), np.arange(table.group.order))]
    indicators = np.rint(table.values[:, squares].mean(axis=1).real).astype(int)
    rows, degrees = [], []
    for i, (row, degree, indicator) in enumerate(zip(table.values, table.degrees.tolist(), indicators.tolist(), strict=True)):
        if indicator == 0:
            partner = int(np.abs(table.values - row.conj()).max(axis=1).argmin())
            if partner < i:
                continue
        rows.append(row if indicator == 1 else row + row.conj())
        degrees.append(degree if indicator == 1 else 2 * degree)
    order = np.argsort(degrees, kind="stable")
    return CharacterTable(table.group, table.classes, np.array(rows)[order], np.array(degrees, dtype=np.int64)[order])
