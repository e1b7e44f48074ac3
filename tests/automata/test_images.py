"""What image sets say of an automaton, against its monoid and against words that are tried out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from statetrack.automata import (
    Automaton,
    TooLargeError,
    from_regex,
    image_sets,
    is_solvable_monoid,
    maximal_subgroups,
    random_automaton,
    random_permutation_automaton,
    transition_monoid,
)
from statetrack.automata.images import holds_even_permutations

AUTOMATA = {
    "flip-flop": Automaton([[0, 0, 1], [1, 0, 1]], [0, 1]),
    "parity": Automaton([[0, 1], [1, 0]], [0, 1]),
    "a clock": from_regex("((a|b)(a|b))*", "ab"),
    "a clock and the last letter": from_regex("((a|b)(a|b))*a", "ab"),
    "ends in ab": from_regex("(a|b)*ab", "ab"),
    "even a": from_regex("(b|ab*a)*", "ab"),
    "one state": Automaton([[0, 0]], [0]),
    **{f"random {seed}": random_automaton(5, 2, np.random.default_rng(seed)) for seed in range(8)},
    **{f"unary {seed}": random_automaton(6, 1, np.random.default_rng(seed)) for seed in range(3)},
}


@pytest.mark.parametrize("name", AUTOMATA)
def test_verdicts_are_those_of_the_monoid(name: str) -> None:
    automaton = AUTOMATA[name]
    images, monoid = image_sets(automaton), transition_monoid(automaton)
    assert images.is_aperiodic == monoid.is_aperiodic
    assert images.is_solvable == is_solvable_monoid(monoid)
    orders = {s.order for s in maximal_subgroups(monoid)}
    assert max((c.group.order for c in images.classes), default=1) == max(orders)
    expected = {frozenset(row) for row in monoid.elements.tolist()}
    assert {frozenset(points.tolist()) for points in images.sets} == {image for image in expected if len(image) > 1}


@pytest.mark.parametrize("name", AUTOMATA)
def test_words_of_equal_length(name: str) -> None:
    """The automaton is a clock on every image set exactly when the words of no length hold a group of their own."""
    automaton = AUTOMATA[name]
    monoid = transition_monoid(automaton)
    words, lengths = frozenset(monoid.letters.tolist()), []
    while words not in lengths:  # the sets of elements that words of each length induce
        lengths.append(words)
        words = frozenset(monoid.multiply(sorted(words), monoid.letters[:, None]).ravel().tolist())
    groups = [frozenset(s.elements.tolist()) for s in maximal_subgroups(monoid)]

    def holds_group(members: frozenset[int]) -> bool:
        for e in members & set(monoid.idempotents.tolist()):
            home = [m for m in members if monoid.table[e, m] == m == monoid.table[m, e] and monoid.ranks[m] == monoid.ranks[e]]
            if len(home) > 1:
                return True
        return False

    assert groups
    assert image_sets(automaton).is_clocked == (not any(map(holds_group, lengths)))


@pytest.mark.parametrize("name", AUTOMATA)
def test_definite_order_by_trying_all_words(name: str) -> None:
    automaton, found = AUTOMATA[name], image_sets(AUTOMATA[name]).definite_order
    states = np.arange(automaton.n_states)[:, None]
    longest = 6

    def tells(n: int) -> bool:
        words = np.array(list(itertools.product(range(automaton.n_symbols), repeat=n)), dtype=np.int64)
        ends = automaton.final(np.broadcast_to(words, (automaton.n_states, *words.shape)), np.repeat(states, len(words), axis=1))
        return bool((ends == ends[0]).all())

    assert found == next((n for n in range(longest + 1) if tells(n)), None)


@pytest.mark.parametrize("name", AUTOMATA)
def test_loops_permute_the_root_and_move_it(name: str) -> None:
    automaton = AUTOMATA[name]
    for c in image_sets(automaton).classes:
        assert (c.loop is None) == c.is_trivial == (c.group.order == 1)
        if c.loop:
            ends = automaton.final(np.tile(c.loop, (c.points.size, 1)), c.points)
            assert sorted(ends.tolist()) == c.points.tolist()
            assert ends.tolist() != c.points.tolist()


def test_twelve_states_are_decided_where_the_monoid_is_out_of_reach() -> None:
    """Random automata with two symbols; two of these monoids have more than 200,000 elements."""
    solvable = [image_sets(random_automaton(12, 2, np.random.default_rng(seed))).is_solvable for seed in (0, 3, 8)]
    assert solvable == [False, True, True]


def test_groups_of_large_degree_are_not_solvable() -> None:
    automaton = random_permutation_automaton(12, 2, np.random.default_rng(0))
    images = image_sets(automaton)
    assert not images.is_solvable
    with pytest.raises(TooLargeError):
        _ = images.classes[0].group
    assert not holds_even_permutations(np.array([[*range(1, 12), 0]]))
    assert not holds_even_permutations(np.array([[1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, 11]]))


def test_the_cap_is_an_answer_of_its_own() -> None:
    with pytest.raises(TooLargeError, match="more than 50 image sets"):
        image_sets(random_automaton(12, 2, np.random.default_rng(0)), max_sets=50)
