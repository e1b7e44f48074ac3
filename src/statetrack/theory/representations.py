"""Real representations of a group that fit a structure: small blocks, or symbols that are products of few reflections.

A symbol whose matrix R is orthogonal takes ``rank(R - I)`` reflections (Cartan and Dieudonne). Several heads, or several blocks,
carry one irreducible representation each; together they are faithful if no element but the identity acts trivially in all. Where
-I is not among the matrices of a representation, the negative of R serves a symbol as well: the state is then known up to sign.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from statetrack.automata import CharacterTable, Group, character_table, group_name, quotient
from statetrack.automata.arrays import IntArray
from statetrack.theory.witness import Representation


def fewest_reflections(group: Group, letters: IntArray) -> Representation:
    """Jointly faithful irreducible real representations in which the symbol that takes most reflections takes fewest.

    Args:
        group: the group.
        letters: ids of the symbols.

    Raises:
        TooLargeError: the group has too many conjugacy classes for a table.
    """
    table = character_table(group, "real")
    ranks = _ranks(table, letters)
    rank = next(k for k in np.unique(ranks).tolist() if _faithful(table, ranks <= k))
    return _small(table, ranks <= rank, ranks)


def smallest_blocks(group: Group) -> Representation:
    """Jointly faithful irreducible real representations whose largest degree is least.

    Raises:
        TooLargeError: the group has too many conjugacy classes for a table.
    """
    table = character_table(group, "real")
    size = next(b for b in np.unique(table.degrees).tolist() if _faithful(table, table.degrees <= b))
    return _small(table, table.degrees <= size)


def turns_space(group: Group, *, names: frozenset[str]) -> Representation | None:
    """Jointly faithful irreducible real representations on lines, planes or spaces, or None if there are none.

    Finite matrix groups of a plane are cyclic or dihedral.

    Args:
        group: the group.
        names: what the matrix groups of spaces may be called; planes alone if empty.

    Raises:
        TooLargeError: the group has too many conjugacy classes for a table.
    """
    table = character_table(group, "real")
    fits = table.degrees <= 2
    if _faithful(table, fits):
        return _small(table, fits)
    for i in np.flatnonzero(table.degrees == 3).tolist() if names else ():
        kernel = np.flatnonzero(table.kernels[i][table.classes])
        fits[i] = group_name(quotient(group, kernel)) in names
    return _small(table, fits) if _faithful(table, fits) else None


def _ranks(table: CharacterTable, letters: IntArray) -> IntArray:
    """For each representation, the most reflections that a symbol takes."""
    with_minus_one = (np.abs(table.values + table.degrees[:, None]) < 1e-6).any(axis=1)
    worst = np.zeros(len(table.degrees), dtype=np.int64)
    for letter in _generators_of_cyclic_groups(table, letters):
        plain = table.degrees - table.multiplicity(letter)
        negated = table.degrees - table.multiplicity(letter, sign=-1)
        worst = np.maximum(worst, np.where(with_minus_one, plain, np.minimum(plain, negated)))
    return worst


def _generators_of_cyclic_groups(table: CharacterTable, letters: IntArray) -> list[int]:
    """One of those symbols that generate the same cyclic group up to conjugation, in which 1 and -1 are eigenvalues alike."""
    left = dict(zip(table.classes[letters].tolist(), letters.tolist(), strict=True))
    kept = []
    while left:
        _, letter = left.popitem()
        kept.append(letter)
        order, power = int(table.group.element_orders[letter]), letter
        for k in range(2, order):
            power = int(table.group.multiply(power, letter))
            if math.gcd(k, order) == 1:
                left.pop(int(table.classes[power]), None)
    return kept


def _faithful(table: CharacterTable, chosen: npt.NDArray[np.bool_]) -> bool:
    """Whether the identity alone acts trivially in all chosen representations."""
    return bool(table.kernels[chosen].all(axis=0).sum() == 1)


def _small(table: CharacterTable, allowed: npt.NDArray[np.bool_], ranks: IntArray | None = None) -> Representation:
    """Few of the allowed representations that are still faithful together."""
    kept = allowed.copy()
    costs = table.degrees if ranks is None else ranks * (table.degrees.max() + 1) + table.degrees
    for i in np.argsort(-costs, kind="stable").tolist():
        if allowed[i]:
            kept[i] = False
            kept[i] = not _faithful(table, kept)
    return Representation(tuple(table.degrees[kept].tolist()), None if ranks is None else int(ranks[kept].max(initial=0)))
