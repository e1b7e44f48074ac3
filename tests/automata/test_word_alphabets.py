"""Alphabets of group word problems, and the automaton of the running product against products multiplied by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sympy.combinatorics import Permutation, PermutationGroup

from statetrack.automata import alphabet, group, minimise, word_automaton
from statetrack.automata.automaton import Automaton
from statetrack.errors import InvalidInputError, UnknownNameError


def order_generated(name: str, ids: np.ndarray) -> int:
    return int(PermutationGroup([Permutation(row) for row in group(name).elements[ids].tolist()]).order())


NAMES = ["C2", "C5", "S2", "S3", "S4", "S5", "A4", "A5", "A6", "A7", "D4", "Q8", "F20", "C2xC4", "A4xC5", "S3xS3"]


@pytest.mark.parametrize("name", NAMES)
def test_alphabets_generate_the_group_without_repeats(name: str) -> None:
    ours = group(name)
    for spec in ("generators", f"random-{min(5, ours.order)}"):
        ids = alphabet(ours, spec)
        assert ids.size == len(set(ids.tolist())) >= 2
        assert order_generated(name, ids) == ours.order


def test_all_numbers_symbols_like_elements() -> None:
    assert alphabet(group("A5"), "all").tolist() == list(range(60))


@pytest.mark.parametrize(
    ("spec", "most_moved", "size"), [("swaps", 2, 11), ("2-point", 2, 11), ("3-point", 3, 31), ("5-point", 5, 120)]
)
def test_restricted_alphabets_of_s5(spec: str, most_moved: int, size: int) -> None:
    rows = group("S5").elements.tolist()
    expected = [i for i, row in enumerate(rows) if sum(x != y for x, y in enumerate(row)) <= most_moved]
    assert alphabet(group("S5"), spec).tolist() == expected
    assert len(expected) == size


def test_standard_generators() -> None:
    def rows(name: str) -> list[list[int]]:
        return group(name).elements[alphabet(group(name), "generators")].tolist()

    assert rows("A5") == [[1, 2, 3, 4, 0], [1, 0, 3, 2, 4]]
    assert rows("S4") == [[1, 2, 3, 0], [1, 0, 2, 3]]
    assert rows("C3") == [[1, 2, 0], [0, 1, 2]]
    assert rows("C2") == [[1, 0], [0, 1]]
    assert rows("D4") == [[1, 2, 3, 0], [0, 3, 2, 1]]
    assert rows("C2xC4") == [[1, 0, 2, 3, 4, 5], [0, 1, 3, 4, 5, 2]]
    assert rows("C1") == [[0]]


def test_random_alphabets_extend_the_generators_and_depend_on_the_seed() -> None:
    a5 = group("A5")
    six, again, twelve, other = (
        alphabet(a5, spec, seed) for spec, seed in (("random-6", 3), ("random-6", 3), ("random-12", 3), ("random-12", 4))
    )
    assert six.tolist() == again.tolist()
    assert six[:2].tolist() == alphabet(a5, "generators").tolist() == alphabet(a5, "random-2").tolist()
    assert twelve[:6].tolist() == six.tolist()
    assert twelve.tolist() != other.tolist()
    assert sorted(alphabet(a5, "random-60").tolist()) == list(range(60))


@pytest.mark.parametrize(
    ("name", "spec"), [("A5", "random-6"), ("S3xS3", "generators"), ("Q8", "all"), ("C5", "generators"), ("S5", "swaps")]
)
def test_automaton_follows_the_running_product(name: str, spec: str) -> None:
    ours = group(name)
    ids = alphabet(ours, spec)
    machine = word_automaton(ours, ids)
    rng = np.random.default_rng(0)
    words = rng.integers(ids.size, size=(8, 12))
    states = machine.output(words)
    for word, row in zip(words.tolist(), states.tolist(), strict=True):
        product = list(range(ours.degree))
        for symbol, state in zip(word, row, strict=True):
            token = ours.elements[ids[symbol]].tolist()
            product = [product[token[x]] for x in range(ours.degree)]
            assert ours.elements[state].tolist() == product
    assert (machine.start, machine.n_states, machine.n_symbols) == (0, ours.order, ids.size)


def test_tracking_the_group_needs_all_its_elements_and_tracking_a_point_does_not() -> None:
    a5 = group("A5")
    machine = word_automaton(a5, alphabet(a5, "generators"))
    assert minimise(machine).n_states == 60
    where_zero_comes_from = a5.elements[a5.inverses, 0]
    point = Automaton(machine.transitions, where_zero_comes_from)
    assert minimise(point).n_states == 5
    assert minimise(Automaton(machine.transitions, a5.elements[:, 0])).n_states == 60  # depends on the whole product


def test_unusable_alphabets_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="reaches only 1 of the 60 elements of A5"):
        alphabet(group("A5"), "swaps")
    with pytest.raises(InvalidInputError, match="reaches only 4 of the 8"):
        alphabet(group("D4"), "2-point")
    for spec in ("random-1", "random-61"):
        with pytest.raises(InvalidInputError, match=r"n in 2 .. 60 for A5"):
            alphabet(group("A5"), spec)
    with pytest.raises(InvalidInputError, match=r"n in 4 .. 36 for S3xS3"):
        alphabet(group("S3xS3"), "random-2")
    with pytest.raises(UnknownNameError, match="Did you mean 'swaps'"):
        alphabet(group("A5"), "swap")
    with pytest.raises(InvalidInputError, match="alphabet_ids"):
        word_automaton(group("S3"), [0, 6])
    with pytest.raises(InvalidInputError, match="one symbol"):
        word_automaton(group("S3"), [])
