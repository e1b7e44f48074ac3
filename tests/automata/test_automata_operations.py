"""Product, trimming, minimisation and equivalence, each against enumeration of all short words in plain Python."""

from __future__ import annotations

from itertools import product as tuples

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrack.automata import Automaton, counterexample, equivalent, minimise, product, reachable, trim
from statetrack.errors import InvalidInputError

Word = tuple[int, ...]


@st.composite
def automata(draw: st.DrawFn, n_symbols: int = 2, max_states: int = 5) -> Automaton:
    n_states = draw(st.integers(1, max_states))
    state = st.integers(0, n_states - 1)
    rows = st.lists(st.lists(state, min_size=n_symbols, max_size=n_symbols), min_size=n_states, max_size=n_states)
    outputs = st.lists(st.integers(0, 1), min_size=n_states, max_size=n_states)
    return Automaton(draw(rows), draw(outputs), start=draw(state))


def words(n_symbols: int, longest: int) -> list[Word]:
    """All words, shorter ones first and alphabetical within a length."""
    return [word for length in range(longest + 1) for word in tuples(range(n_symbols), repeat=length)]


def state_after(machine: Automaton, word: Word, state: int | None = None) -> int:
    state = machine.start if state is None else state
    for symbol in word:
        state = int(machine.transitions[state][symbol])
    return state


def class_after(machine: Automaton, word: Word, state: int | None = None) -> int:
    return int(machine.outputs[state_after(machine, word, state)])


def n_residuals(machine: Automaton) -> int:
    """Number of distinct behaviours of reachable states: the size of the minimal automaton (Myhill-Nerode)."""
    tests = words(machine.n_symbols, machine.n_states)
    states = {state_after(machine, word) for word in tests}
    return len({tuple(class_after(machine, word, state) for word in tests) for state in states})


@settings(deadline=None, max_examples=40)
@given(automata())
def test_minimise_keeps_the_behaviour_and_is_smallest(machine: Automaton) -> None:
    small = minimise(machine)
    assert small.n_states == n_residuals(machine)
    for word in words(2, 6):
        assert class_after(small, word) == class_after(machine, word)


@settings(deadline=None, max_examples=40)
@given(automata(), st.randoms(use_true_random=False))
def test_minimal_form_does_not_depend_on_numbering_or_dead_weight(machine: Automaton, random) -> None:
    n = machine.n_states
    new_id = list(range(2 * n + 1))  # every state twice, and a state that nothing reaches
    random.shuffle(new_id)
    transitions = np.zeros((2 * n + 1, 2), dtype=int)
    outputs = np.zeros(2 * n + 1, dtype=int)
    for state in range(n):
        for copy in (0, n):
            outputs[new_id[state + copy]] = machine.outputs[state]
            for symbol in (0, 1):
                target = int(machine.transitions[state, symbol]) + random.choice((0, n))
                transitions[new_id[state + copy], symbol] = new_id[target]
    transitions[new_id[2 * n]] = new_id[machine.start]
    disguised = Automaton(transitions, outputs, start=new_id[machine.start])
    assert minimise(disguised) == minimise(machine)
    assert minimise(minimise(machine)) == minimise(machine)


@settings(deadline=None, max_examples=60)
@given(automata(max_states=4), automata(max_states=4))
def test_counterexample_is_the_first_word_that_tells_two_automata_apart(left: Automaton, right: Automaton) -> None:
    longest = left.n_states + right.n_states - 2  # inequivalent automata differ on some word of this length or less
    expected = next((w for w in words(2, longest) if class_after(left, w) != class_after(right, w)), None)
    assert counterexample(left, right) == expected
    assert equivalent(left, right) is (expected is None)
    assert (minimise(left) == minimise(right)) is (expected is None)


def test_counterexample_can_be_empty_and_long() -> None:
    def count_to(n: int) -> Automaton:
        return Automaton([[min(state + 1, n), state] for state in range(n + 1)], [0] * n + [1])

    assert counterexample(Automaton([[0]], [0]), Automaton([[0]], [1])) == ()
    assert counterexample(count_to(30), count_to(40)) == (0,) * 30
    assert counterexample(count_to(5), count_to(5)) is None


@settings(deadline=None, max_examples=30)
@given(automata(max_states=3), automata(max_states=3))
def test_product_reads_both_side_by_side(left: Automaton, right: Automaton) -> None:
    pairs, both = product(left, right), product(left, right, np.logical_and)
    difference = product(left, right, lambda a, b: a * (1 - b))
    for word in words(2, 5):
        a, b = class_after(left, word), class_after(right, word)
        p, q = state_after(left, word), state_after(right, word)
        assert state_after(pairs, word) == p * right.n_states + q
        assert class_after(pairs, word) == a * right.n_outputs + b
        assert class_after(both, word) == (a and b)
        assert class_after(difference, word) == (a and not b)


@settings(deadline=None, max_examples=30)
@given(automata(max_states=6))
def test_reachable_states_come_in_order_of_their_first_word(machine: Automaton) -> None:
    order = list(dict.fromkeys(state_after(machine, word) for word in words(2, machine.n_states)))
    assert reachable(machine).tolist() == order
    trimmed = trim(machine)
    assert trimmed.start == 0
    for word in words(2, 6):
        assert order[state_after(trimmed, word)] == state_after(machine, word)


def test_names_survive_where_they_still_mean_something() -> None:
    machine = Automaton([[2, 0], [1, 1], [0, 0]], [0, 1, 0], symbols=("a", "b"), state_names=("p", "q", "r"))
    assert trim(machine).state_names == ("p", "r")
    assert minimise(machine).symbols == ("a", "b")
    assert product(Automaton([[0, 0]], [0]), machine).symbols == ("a", "b")


def test_known_minimal_sizes() -> None:
    mod6 = Automaton([[(q + 1) % 6] for q in range(6)], [q % 3 for q in range(6)])
    assert minimise(mod6).n_states == 3
    assert minimise(Automaton([[(q + 1) % 6] for q in range(6)], [0, 1, 1, 1, 1, 1])).n_states == 6
    chain = Automaton([[min(q + 1, 200)] for q in range(201)], [0] * 200 + [1])
    assert minimise(chain) == chain
    parity = Automaton([[0, 1], [1, 0]], [0, 1])
    other = Automaton([[1, 0], [0, 1]], [0, 1])
    assert minimise(product(parity, other)).n_states == 4
    assert minimise(product(parity, other, np.not_equal)).n_states == 2  # the parity of the length


def test_different_alphabets_and_bad_combinations_are_refused() -> None:
    two, three = Automaton([[0, 0]], [0], symbols="ab"), Automaton([[0, 0, 0]], [0])
    for operation in (product, counterexample, equivalent):
        with pytest.raises(InvalidInputError, match="2 symbols and the other 3"):
            operation(two, three)
        with pytest.raises(InvalidInputError, match="the other"):
            operation(two, Automaton([[0, 0]], [0], symbols="ba"))
    with pytest.raises(InvalidInputError, match="one class for each of the 1 pairs"):
        product(two, two, lambda a, b: [0, 1])
    with pytest.raises(InvalidInputError, match="whole numbers"):
        product(two, two, lambda a, b: a / 2)
