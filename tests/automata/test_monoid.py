"""Transition monoids against plain breadth-first search over tuples, and against published sizes and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.automata import (
    Automaton,
    TooLargeError,
    alphabet,
    from_regex,
    group,
    is_solvable_monoid,
    maximal_subgroups,
    random_automaton,
    transition_monoid,
    word_automaton,
)
from statetrack.errors import InvalidInputError

FULL_T3 = Automaton([[1, 1, 0], [2, 0, 0], [0, 2, 2]], [0, 1, 2])
FLIP_FLOP = Automaton([[0, 0, 1], [1, 0, 1]], [0, 1])


def points(name: str) -> Automaton:
    """The generators of a group acting on its points."""
    made = group(name)
    return Automaton(made.elements[list(made.generators)].T, range(made.degree))


def regular(name: str, spec: str = "all") -> Automaton:
    made = group(name)
    return word_automaton(made, alphabet(made, spec))


# (rank, order) of the maximal subgroups, as far as they are not trivial
REFERENCE = {
    "A5 on points": (points("A5"), 60, {(5, 60)}, False, False),
    "A5 regular": (regular("A5"), 60, {(60, 60)}, False, False),
    "S5 regular": (regular("S5", "generators"), 120, {(120, 120)}, False, False),
    "S3": (points("S3"), 6, {(3, 6)}, False, True),
    "mod 3": (points("C3"), 3, {(3, 3)}, False, True),
    "parity": (points("C2"), 2, {(2, 2)}, False, True),
    "flip-flop": (FLIP_FLOP, 3, set(), True, True),
    "(ab)*": (from_regex("(ab)*", "ab"), 6, set(), True, True),
    "all maps of 3 points": (FULL_T3, 27, {(2, 2), (3, 6)}, False, True),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_table(name: str) -> None:
    automaton, size, groups, aperiodic, solvable = REFERENCE[name]
    monoid = transition_monoid(automaton)
    assert (monoid.size, monoid.is_aperiodic, is_solvable_monoid(monoid)) == (size, aperiodic, solvable)
    assert {(len(s.points), s.order) for s in maximal_subgroups(monoid) if s.order > 1} == groups


def brute_force(automaton: Automaton) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Every map of states with the first of its shortest words."""
    letters = [tuple(column) for column in automaton.transitions.T.tolist()]
    found = {tuple(range(automaton.n_states)): ()}
    frontier = list(found)
    while frontier:
        fresh = []
        for m in frontier:
            for symbol, letter in enumerate(letters):
                product = tuple(letter[q] for q in m)
                if product not in found:
                    found[product] = (*found[m], symbol)
                    fresh.append(product)
        frontier = fresh
    return found


@pytest.mark.parametrize("seed", range(6))
def test_elements_words_and_products_agree_with_brute_force(seed: int) -> None:
    generator = np.random.default_rng(seed)
    automaton = random_automaton(4 + seed % 2, 1 + seed % 3, generator)
    expected, monoid = brute_force(automaton), transition_monoid(automaton)
    assert [tuple(row) for row in monoid.elements.tolist()] == list(expected)
    assert [monoid.word(i) for i in range(monoid.size)] == list(expected.values())
    assert monoid.elements[monoid.letters].tolist() == automaton.transitions.T.tolist()
    a, b = generator.integers(monoid.size, size=(2, 200))
    products = [[monoid.elements[then][q] for q in monoid.elements[first]] for first, then in zip(a, b, strict=True)]
    assert monoid.elements[monoid.multiply(a, b)].tolist() == products
    assert np.array_equal(monoid.table[a, b], monoid.multiply(a, b))
    assert np.array_equal(monoid.index(monoid.elements), np.arange(monoid.size))
    assert monoid.closure(monoid.letters).tolist() == sorted(set(monoid.table[:, monoid.letters].ravel().tolist()))


@pytest.mark.parametrize("seed", range(6))
def test_properties_agree_with_their_definitions(seed: int) -> None:
    monoid = transition_monoid(random_automaton(5, 2, np.random.default_rng(seed)))
    table, ids = monoid.table, np.arange(monoid.size)
    assert monoid.idempotents.tolist() == ids[table[ids, ids] == ids].tolist()
    assert monoid.ranks.tolist() == [len(set(row)) for row in monoid.elements.tolist()]
    powers = [ids[:]]
    for _ in range(3 * monoid.n_states * 12):
        powers.append(table[powers[-1], ids])
    assert monoid.periodic.tolist() == ids[powers[-1] != powers[-2]].tolist()
    assert monoid.is_aperiodic == (monoid.periodic.size == 0)
    for element in ids[:50].tolist():
        settled = [p[element] for p in powers[monoid.n_states :]]
        assert monoid.period(element) == settled[1:].index(settled[0]) + 1


def test_large_alphabets_are_reduced_to_few_generators() -> None:
    monoid = transition_monoid(regular("S5"))
    assert len(monoid.generators) <= 4
    assert monoid.closure(monoid.generators).size == 120
    assert max(len(monoid.word(i)) for i in range(monoid.size)) == 1


def test_resets_and_groups_are_told_by_their_symbols() -> None:
    assert transition_monoid(FLIP_FLOP).is_reset
    assert not transition_monoid(from_regex("(ab)*", "ab")).is_reset
    assert transition_monoid(points("S4")).is_group
    assert transition_monoid(Automaton([[0, 0]], [0])).is_group
    assert transition_monoid(Automaton([[0, 0]], [0])).is_aperiodic


def test_the_cap_is_an_answer_of_its_own() -> None:
    automaton = random_automaton(12, 2, np.random.default_rng(0))
    with pytest.raises(TooLargeError, match=r"more than 3,000 elements; nothing is decided"):
        transition_monoid(automaton, 3000)
    with pytest.raises(TooLargeError, match="too large to write down"):
        _ = transition_monoid(random_automaton(12, 2, np.random.default_rng(6))).table


def test_bad_ids_and_maps_are_refused() -> None:
    monoid = transition_monoid(FLIP_FLOP)
    with pytest.raises(InvalidInputError, match=r"element must lie in 0 \.\. 2"):
        monoid.word(3)
    with pytest.raises(InvalidInputError, match="not induced by any word"):
        monoid.index([1, 0])
    with pytest.raises(InvalidInputError, match="must have 2 images"):
        monoid.index([1, 0, 1])
