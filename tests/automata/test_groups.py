"""Permutation groups against sympy, itertools and arithmetic done by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sympy.combinatorics import AlternatingGroup, CyclicGroup, DihedralGroup, Permutation, PermutationGroup, SymmetricGroup
from sympy.combinatorics.group_constructs import DirectProduct

from statetrack.automata import commutator_subgroup, derived_series, generated_group, group, is_solvable
from statetrack.automata.groups import Group
from statetrack.errors import InvalidInputError, UnknownNameError

ORACLES = {
    "C1": CyclicGroup(1),
    "C2": CyclicGroup(2),
    "C6": CyclicGroup(6),
    "Z5": CyclicGroup(5),
    "S1": SymmetricGroup(1),
    "S2": SymmetricGroup(2),
    "S3": SymmetricGroup(3),
    "S5": SymmetricGroup(5),
    "A3": AlternatingGroup(3),
    "A4": AlternatingGroup(4),
    "A5": AlternatingGroup(5),
    "A6": AlternatingGroup(6),
    "D3": DihedralGroup(3),
    "D4": DihedralGroup(4),
    "D7": DihedralGroup(7),
    "F20": PermutationGroup(Permutation([1, 2, 3, 4, 0]), Permutation([0, 2, 4, 1, 3])),
    "C2xC4": DirectProduct(CyclicGroup(2), CyclicGroup(4)),
    "A4xC5": DirectProduct(AlternatingGroup(4), CyclicGroup(5)),
    "S3xS3": DirectProduct(SymmetricGroup(3), SymmetricGroup(3)),
    "C2xC2xC2": DirectProduct(CyclicGroup(2), CyclicGroup(2), CyclicGroup(2)),
}


@pytest.mark.parametrize("name", ORACLES)
def test_facts_agree_with_sympy(name: str) -> None:
    ours, oracle = group(name), ORACLES[name]
    assert (ours.order, ours.degree) == (oracle.order(), oracle.degree)
    assert sorted(map(tuple, ours.elements.tolist())) == sorted(tuple(p.array_form) for p in oracle.elements)
    assert ours.is_abelian == oracle.is_abelian
    assert is_solvable(ours) == oracle.is_solvable
    assert [ids.size for ids in derived_series(ours)] == [subgroup.order() for subgroup in oracle.derived_series()]
    assert ours.element_orders.tolist() == [Permutation(row).order() for row in ours.elements.tolist()]


@pytest.mark.parametrize("name", [*ORACLES, "A1", "A2", "Q8", "S6"])
def test_group_laws(name: str) -> None:
    ours = group(name)
    ids = np.arange(ours.order)
    assert ours.elements[0].tolist() == list(range(ours.degree))
    rows = list(map(tuple, ours.elements.tolist()))
    assert rows == sorted(set(rows))
    assert np.array_equal(ours.table[0], ids)
    assert np.array_equal(ours.table[:, 0], ids)
    assert not ours.table[ids, ours.inverses].any()
    assert not ours.table[ours.inverses, ids].any()
    assert (np.sort(ours.table, axis=0) == ids[:, None]).all()
    a, b, c = np.random.default_rng(0).integers(ours.order, size=(3, 500))
    assert np.array_equal(ours.table[ours.table[a, b], c], ours.table[a, ours.table[b, c]])


@pytest.mark.parametrize("name", ["S4", "A5", "D5", "Q8", "C2xS3"])
def test_the_right_factor_acts_first(name: str) -> None:
    ours = group(name)
    rows = ours.elements.tolist()
    position = {tuple(row): i for i, row in enumerate(rows)}
    for a, left in enumerate(rows):
        for b, right in enumerate(rows):
            composed = position[tuple(left[right[x]] for x in range(ours.degree))]
            assert ours.table[a, b] == composed
    assert ours.multiply([[1], [2]], [1, 2]).tolist() == [[ours.table[i, j] for j in (1, 2)] for i in (1, 2)]


def test_numbering_of_the_named_families() -> None:
    assert group("S4").elements.tolist() == [list(p) for p in permutations(range(4))]
    even = [p for p in permutations(range(5)) if sum(p[i] > p[j] for i in range(5) for j in range(i, 5)) % 2 == 0]
    assert group("A5").elements.tolist() == [list(p) for p in even]
    assert group("C7").elements.tolist() == [[(x + j) % 7 for x in range(7)] for j in range(7)]
    assert group("C7").table.tolist() == [[(i + j) % 7 for j in range(7)] for i in range(7)]
    symmetries = [[(k + s * x) % 5 for x in range(5)] for k in range(5) for s in (1, -1)]
    assert group("D5").elements.tolist() == sorted(symmetries)
    affine = [[(a * x + b) % 5 for x in range(5)] for a in range(1, 5) for b in range(5)]
    assert group("F20").elements.tolist() == sorted(affine)


def test_quaternions_multiply_like_matrices() -> None:
    one, i, j = np.eye(2), np.array([[1j, 0], [0, -1j]]), np.array([[0, 1], [-1, 0]])
    units = [sign * unit for unit in (one, i, j, i @ j) for sign in (1, -1)]
    expected = [[next(k for k, u in enumerate(units) if np.allclose(a @ b, u)) for b in units] for a in units]
    assert group("Q8").table.tolist() == expected
    assert not group("Q8").is_abelian
    assert sorted(group("Q8").element_orders.tolist()) == [1, 2, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("names", [("A4", "C5"), ("S3", "S3"), ("C2", "S3", "C4")])
def test_products_multiply_componentwise_with_the_last_factor_fastest(names: tuple[str, ...]) -> None:
    whole, factors = group("x".join(names)), [group(name) for name in names]
    orders = tuple(factor.order for factor in factors)
    assert whole.order == np.prod(orders)
    assert whole.degree == sum(factor.degree for factor in factors)
    ids = np.arange(whole.order)
    left, right = np.unravel_index(ids[:, None], orders), np.unravel_index(ids[None, :], orders)
    parts = [factor.table[a, b] for factor, a, b in zip(factors, left, right, strict=True)]
    assert np.array_equal(whole.table, np.ravel_multi_index(parts, orders))


def test_index_finds_every_element_and_refuses_others() -> None:
    ours = group("A5")
    assert ours.index(ours.elements).tolist() == list(range(60))
    assert ours.index(ours.elements.reshape(6, 10, 5)).shape == (6, 10)
    assert ours.index([1, 0, 3, 2, 4]) == ours.elements.tolist().index([1, 0, 3, 2, 4])
    with pytest.raises(InvalidInputError, match=r"\[1, 0, 2, 3, 4\] is not an element of A5"):
        ours.index([1, 0, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="not an element"):
        ours.index([0, 0, 0, 0, 0])
    with pytest.raises(InvalidInputError, match="5 images"):
        ours.index([0, 1])
    with pytest.raises(InvalidInputError, match="left must lie in"):
        ours.multiply(60, 0)


def test_commutators_of_s5_form_the_perfect_group_a5() -> None:
    s5 = group("S5")
    commutators = commutator_subgroup(s5)
    assert s5.elements[commutators].tolist() == group("A5").elements.tolist()
    assert np.array_equal(commutator_subgroup(s5, commutators), commutators)


@pytest.mark.parametrize("name", ["S4", "D6", "A4xC5", "Q8"])
def test_commutator_subgroup_is_generated_by_all_commutators(name: str) -> None:
    ours = group(name)
    table, inverses = ours.table, ours.inverses
    seen = {0} | {int(table[table[a, b], table[inverses[a], inverses[b]]]) for a in range(ours.order) for b in range(ours.order)}
    while True:
        larger = seen | {int(table[a, b]) for a in seen for b in seen}
        if larger == seen:
            break
        seen = larger
    assert commutator_subgroup(ours).tolist() == sorted(seen)


def test_closure_and_generated_groups() -> None:
    s4 = group("S4")
    four_cycle = int(s4.index([1, 2, 3, 0]))
    rotations = sorted([[(x + k) % 4 for x in range(4)] for k in range(4)])
    assert s4.elements[s4.closure([four_cycle])].tolist() == rotations
    assert s4.closure([]).tolist() == [0]
    square = generated_group("square", [[1, 2, 3, 0], [0, 3, 2, 1]])
    assert square.elements.tolist() == group("D4").elements.tolist()
    assert square.elements[list(square.generators)].tolist() == [[1, 2, 3, 0], [0, 3, 2, 1]]
    with pytest.raises(InvalidInputError, match="more than 100 elements"):
        generated_group("S5", [[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]], max_order=100)
    with pytest.raises(InvalidInputError, match=r"permutations of 0 .. 2, but one row is \[0, 0, 1\]"):
        generated_group("broken", [[0, 1, 2], [0, 0, 1]])


def test_moved_points() -> None:
    counts = np.bincount(group("S5").n_moved_points)
    assert counts.tolist() == [1, 0, 10, 20, 45, 44]


def test_tables_that_are_no_groups_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="lexicographic order"):
        Group("x", [[1, 0], [0, 1]], (0,))
    with pytest.raises(InvalidInputError, match="distinct"):
        Group("x", [[0, 1], [0, 1]], (0,))
    with pytest.raises(InvalidInputError, match=r"\[2, 0, 1\] is not an element"):
        Group("x", [[0, 1, 2], [1, 2, 0]], (1,))
    with pytest.raises(InvalidInputError, match="must generate all 6 elements, but reach 2"):
        Group("x", group("S3").elements, (1,))
    with pytest.raises(InvalidInputError, match="at least one permutation"):
        Group("x", np.zeros((0, 3), dtype=int), ())


def test_names() -> None:
    assert group("Z60") is group("C60")
    assert group("A4xZ5").name == "A4xC5"
    for wrong, right in (("s5", "S5"), ("A4_x_Z5", "A4xZ5"), ("q8", "Q8"), ("C2 x C4", "C2xC4"), ("F2", "F20")):
        with pytest.raises(UnknownNameError, match=rf"Did you mean '{right}'\?"):
            group(wrong)
    for wrong in ("", "monster", "C0", "C2x", "S-3", "S5.0"):
        with pytest.raises(UnknownNameError) as raised:
            group(wrong)
        assert "\n" not in str(raised.value)
    for large in ("S8", "A8", "C10001", "S7xC2", "S1000000", "C9999999999"):
        with pytest.raises(InvalidInputError, match="more than 10,000 elements"):
            group(large)
    with pytest.raises(InvalidInputError, match="instead of D2 use C2xC2"):
        group("D2")
