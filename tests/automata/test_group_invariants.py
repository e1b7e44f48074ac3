"""Invariants of groups against sympy, against explicit matrices, and against tables in textbooks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sympy.combinatorics import AlternatingGroup, CyclicGroup, DihedralGroup, Permutation, PermutationGroup, SymmetricGroup

from statetrack.automata import (
    TooLargeError,
    abelian_invariants,
    character_table,
    composition_factors,
    conjugacy_classes,
    elementary_series,
    exponent,
    faithful_degree,
    generated_group,
    group,
    group_name,
    is_dihedral,
    minimal_generators,
    normal_closure,
    p_group_prime,
    quotient,
    subgroup,
)
from statetrack.errors import InvalidInputError

NAMES = ("C1", "C2", "C6", "C2xC4", "C3xC6", "S3", "D4", "D5", "D6", "Q8", "A4", "F20", "S4", "A4xC2", "S3xS3", "A5", "S5")
ORACLES = {
    "C6": CyclicGroup(6),
    "S4": SymmetricGroup(4),
    "A5": AlternatingGroup(5),
    "D6": DihedralGroup(6),
    "S5": SymmetricGroup(5),
}


@pytest.mark.parametrize("name", ORACLES)
def test_classes_exponent_and_normal_closures_agree_with_sympy(name: str) -> None:
    ours, oracle = group(name), ORACLES[name]
    classes = conjugacy_classes(ours)
    expected = {frozenset(tuple(p.array_form) for p in c) for c in oracle.conjugacy_classes()}
    rows = [tuple(row) for row in ours.elements.tolist()]
    found = {frozenset(rows[i] for i in np.flatnonzero(classes == label)) for label in range(classes.max() + 1)}
    assert found == expected
    assert exponent(ours) == int(np.lcm.reduce([p.order() for p in oracle.elements]))
    for element in (1, ours.order // 2, ours.order - 1):
        closure = oracle.normal_closure(PermutationGroup([Permutation(ours.elements[element].tolist())]))
        assert normal_closure(ours, [element]).size == closure.order()


COMPOSITION = {
    "C1": [],
    "C6": ["C3", "C2"],
    "C2xC4": ["C2", "C2", "C2"],
    "S4": ["C3", "C2", "C2", "C2"],
    "A5": ["A5"],
    "S5": ["A5", "C2"],
    "A4xC5": ["C5", "C3", "C2", "C2"],
    "A5xC2": ["A5", "C2"],
}


@pytest.mark.parametrize("name", COMPOSITION)
def test_composition_factors(name: str) -> None:
    assert [group_name(factor) for factor in composition_factors(group(name))] == COMPOSITION[name]


def test_quotients_and_subgroups_are_groups_of_their_own() -> None:
    s4 = group("S4")
    klein = normal_closure(s4, [int(s4.index([1, 0, 3, 2]))])
    assert (klein.size, group_name(quotient(s4, klein)), group_name(subgroup(s4, klein))) == (4, "S3", "C2xC2")
    product = quotient(s4, klein)
    coset = {tuple(sorted(s4.multiply(g, klein).tolist())) for g in range(24)}
    assert (product.order, len(coset)) == (6, 6)
    with pytest.raises(InvalidInputError, match="normal subgroup"):
        quotient(s4, [0, 1])


def test_abelian_invariants() -> None:
    assert abelian_invariants(group("C2xC4")) == (2, 4)
    assert abelian_invariants(group("C6xC10")) == (2, 30)
    assert abelian_invariants(group("C1")) == ()
    s4 = group("S4")
    assert abelian_invariants(s4, bottom=subgroup_ids("A4")) == (2,)
    with pytest.raises(InvalidInputError, match="abelian"):
        abelian_invariants(group("S3"))


def subgroup_ids(name: str) -> list[int]:
    rows = {tuple(row) for row in group(name).elements.tolist()}
    return [i for i, row in enumerate(group("S4").elements.tolist()) if tuple(row) in rows]


def test_elementary_series_and_p_groups() -> None:
    assert [len(elementary_series(group(name), 2)) - 1 for name in ("C2xC2", "C4", "C2xC4", "D4", "Q8", "C16")] == [
        1,
        2,
        2,
        2,
        2,
        4,
    ]
    assert [ids.size for ids in elementary_series(group("C12"), 2)] == [12, 6, 3]
    assert [p_group_prime(group(name)) for name in ("C1", "C9", "Q8", "S3")] == [None, 3, 2, None]
    with pytest.raises(InvalidInputError, match="prime"):
        elementary_series(group("C4"), 4)


# by hand, or from tables of small groups
GENERATORS = {"C1": 0, "C6": 1, "C2xC4": 2, "C3xC6": 2, "S3": 2, "Q8": 2, "A4": 2, "S5": 2, "C2xC2xC2": 3, "D4xC2": 3, "S3xS3": 2}


@pytest.mark.parametrize("name", GENERATORS)
def test_minimal_generators(name: str) -> None:
    made = group(name)
    found = minimal_generators(made)
    assert len(found) == GENERATORS[name]
    assert made.closure(found).size == made.order


def test_minimal_generators_where_the_abelian_factor_misleads() -> None:
    """The maps ``x -> +-x + b`` of C3 x C3: their largest abelian factor is C2, but three elements are needed."""
    points = list(itertools.product(range(3), repeat=2))
    maps = [
        [points.index(((s * x + a) % 3, (s * y + b) % 3)) for x, y in points] for s, a, b in ((1, 1, 0), (1, 0, 1), (2, 0, 0))
    ]
    made = generated_group("generalised dihedral", maps)
    assert (made.order, len(minimal_generators(made))) == (18, 3)


# degrees of the irreducible complex representations; frequencies of real, complex and quaternionic ones
DEGREES = {
    "C1": [1],
    "S3": [1, 1, 2],
    "Q8": [1, 1, 1, 1, 2],
    "A4": [1, 1, 1, 3],
    "S4": [1, 1, 2, 3, 3],
    "A5": [1, 3, 3, 4, 5],
    "F20": [1, 1, 1, 1, 4],
    "S5": [1, 1, 4, 4, 5, 5, 6],
    "A6": [1, 5, 5, 8, 8, 9, 10],
}
REAL_DEGREES = {"C3": [1, 2], "A4": [1, 2, 3], "Q8": [1, 1, 1, 1, 4], "F20": [1, 1, 2, 4], "S4": [1, 1, 2, 3, 3]}


@pytest.mark.parametrize("name", DEGREES)
def test_degrees_of_complex_representations(name: str) -> None:
    assert character_table(group(name)).degrees.tolist() == DEGREES[name]


@pytest.mark.parametrize("name", REAL_DEGREES)
def test_degrees_of_real_representations(name: str) -> None:
    assert character_table(group(name), "real").degrees.tolist() == REAL_DEGREES[name]


@pytest.mark.parametrize("name", NAMES)
def test_characters_are_orthogonal(name: str) -> None:
    table = character_table(group(name))
    values = table.values[:, table.classes]
    assert np.allclose(values @ values.conj().T / table.group.order, np.eye(len(values)))


def test_characters_of_explicit_matrices() -> None:
    """The standard representation of S5: permutation matrices less the trivial part."""
    s5 = group("S5")
    table = character_table(s5, "real")
    trace = (s5.elements == np.arange(5)).sum(axis=1) - 1
    (row,) = [i for i, values in enumerate(table.values[:, table.classes]) if np.allclose(values, trace)]
    basis = np.linalg.qr(np.column_stack([np.ones(5), np.eye(5)[:, :4]]))[0][:, 1:]
    for element in range(0, 120, 7):
        matrix = basis.T @ np.eye(5)[:, s5.elements[element]] @ basis
        for sign in (1, -1):
            assert table.multiplicity(element, sign)[row] == 4 - np.linalg.matrix_rank(matrix - sign * np.eye(4), tol=1e-8)


# least degrees of faithful matrices, complex and real
FAITHFUL = {
    "C1": (0, 0),
    "C2": (1, 1),
    "C5": (1, 2),
    "C2xC4": (2, 3),
    "C3xC6": (2, 4),
    "C2xC2xC2": (3, 3),
    "S3": (2, 2),
    "D5": (2, 2),
    "Q8": (2, 4),
    "A4": (3, 3),
    "S4": (3, 3),
    "A5": (3, 3),
    "F20": (4, 4),
    "S5": (4, 4),
    "A4xC5": (3, 5),
    "S3xS3": (4, 4),
}


@pytest.mark.parametrize("name", FAITHFUL)
def test_faithful_degrees(name: str) -> None:
    made = group(name)
    assert (faithful_degree(made), faithful_degree(made, "real")) == FAITHFUL[name]


@pytest.mark.parametrize("name", ["C6", "C2xC4", "C2xC6", "C3xC6", "C4xC4", "C2xC2xC3"])
@pytest.mark.parametrize("field", ["real", "complex"])
def test_faithful_degrees_of_abelian_groups_by_trying_all_sets_of_characters(name: str, field: str) -> None:
    table = character_table(group(name), field)
    best = min(
        sum(table.degrees[list(chosen)])
        for size in range(1, 4)
        for chosen in itertools.combinations(range(len(table.degrees)), size)
        if table.kernels[list(chosen)].all(axis=0).sum() == 1
    )
    assert faithful_degree(group(name), field) == best


def test_tables_have_a_limit() -> None:
    with pytest.raises(TooLargeError, match="conjugacy classes"):
        character_table(group("C1200"))
    assert faithful_degree(group("C1200"), "real") == 2


def test_names_of_groups_that_come_without_one() -> None:
    def renamed(name: str) -> str:
        return group_name(generated_group("?", group(name).elements[list(group(name).generators)]))

    known = ("C1", "C6", "C2xC4", "S3", "D4", "D5", "D6", "Q8", "A4", "F20", "S4", "A5", "S5", "A6")
    assert [renamed(name) for name in known] == list(known)
    assert [renamed(name) for name in ("A4xC2", "A5xC2", "S3xC3", "Q8xC2")] == ["order 24", "order 120", "order 18", "order 16"]
    assert [name for name in NAMES if is_dihedral(group(name))] == ["C2", "S3", "D4", "D5", "D6"]
