"""What a group is called, from properties that settle which group it is."""

from __future__ import annotations

import math

import numpy as np

from statetrack.automata.arrays import IntArray
from statetrack.automata.groups import Group
from statetrack.automata.invariants import abelian_invariants
from statetrack.automata.subgroups import commutator_subgroup


def group_name(group: Group) -> str:
    """A name such as ``C2xC4``, ``D5``, ``S4``, or ``order 48`` for groups that are not recognised.

    Recognised up to isomorphism: abelian and dihedral groups, Q8, F20, A4 to A7, S3 to S7. D3 is called S3. The classification of
    groups of these orders says that the properties looked at occur in no other group.

    >>> from statetrack.automata import generated_group
    >>> group_name(generated_group("turns and flips of a square", [[1, 2, 3, 0], [0, 3, 2, 1]]))
    'D4'
    """
    if group.is_abelian:
        return "x".join(f"C{n}" for n in abelian_invariants(group)) or "C1"
    if is_dihedral(group):
        return "S3" if group.order == 6 else f"D{group.order // 2}"
    order, orders = group.order, np.bincount(group.element_orders)
    derived = commutator_subgroup(group).size
    for n in (5, 6, 7):
        half = math.factorial(n) // 2
        if order == half and derived == order:
            return f"A{n}"
        # Other groups with A_n inside have a centre or, for n = 6, another number of involutions.
        if order == 2 * half and derived == half and _centre(group).size == 1 and (n != 6 or orders[2] == 75):
            return f"S{n}"
    if order == 8:
        return "Q8"
    if order == 12 and orders[3] == 8:
        return "A4"
    if order == 24 and orders[3] == 8 and orders[2] == 9:
        return "S4"
    if order == 20 and _centre(group).size == 1:
        return "F20"
    return f"order {order}"


def is_dihedral(group: Group) -> bool:
    """Whether the group is that of the symmetries of a polygon: a cyclic half, and involutions outside it. D1 and D2 count."""
    half = group.order // 2
    turns = np.flatnonzero(group.element_orders == half)
    for turn in turns.tolist():
        outside = np.setdiff1d(np.arange(group.order), group.closure([turn]))
        if (group.element_orders[outside] == 2).all():
            return True
    return group.order == 2


def _centre(group: Group) -> IntArray:
    ids = np.arange(group.order)
    central = np.ones(group.order, dtype=bool)
    for g in group.generators:
        central &= group.multiply(g, ids) == group.multiply(ids, g)
    return np.flatnonzero(central)
