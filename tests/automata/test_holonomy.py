"""The cascade points at the state of the automaton, level by level, by permutations and resets only."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.automata import Automaton, from_regex, group, holonomy, random_automaton, word_automaton
from statetrack.errors import InvalidInputError

AUTOMATA = {
    "flip-flop": Automaton([[0, 0, 1], [1, 0, 1]], [0, 1]),
    "parity with reset": Automaton([[0, 1, 0], [1, 0, 0]], [0, 1]),
    "all maps of 3 points": Automaton([[1, 1, 0], [2, 0, 0], [0, 2, 2]], [0, 1, 2]),
    "(a|bab)*": from_regex("(a|bab)*", "ab"),
    "one state": Automaton([[0, 0]], [0]),
    "S4": word_automaton(group("S4"), [3, 9]),
    **{f"random {seed}": random_automaton(6, 2, np.random.default_rng(seed)) for seed in range(4)},
}


@pytest.mark.parametrize("name", AUTOMATA)
def test_every_reachable_configuration_follows_the_automaton(name: str) -> None:
    automaton = AUTOMATA[name]
    cascade = holonomy(automaton)
    frontier = {cascade.lift(state) for state in range(automaton.n_states)}
    assert {cascade.project(configuration) for configuration in frontier} == set(range(automaton.n_states))
    seen = set()
    while frontier:
        seen |= frontier
        fresh = set()
        for configuration in frontier:
            for symbol in range(automaton.n_symbols):
                after = cascade.step(configuration, symbol)
                assert cascade.project(after) == automaton.transitions[cascade.project(configuration), symbol]
                fresh.add(after)
        frontier = fresh - seen
    assert len(seen) < 10_000


@pytest.mark.parametrize("name", AUTOMATA)
def test_a_level_is_moved_by_the_symbol_and_the_levels_above(name: str) -> None:
    automaton = AUTOMATA[name]
    cascade, generator = holonomy(automaton), np.random.default_rng(0)
    moves: dict[tuple[object, ...], object] = {}
    for word in generator.integers(automaton.n_symbols, size=(10, 20)).tolist():
        configuration = cascade.lift(automaton.start)
        for symbol in word:
            for level, move in enumerate(cascade.moves(configuration, symbol)):
                assert moves.setdefault((level, configuration[:level], symbol), move) == move
                if move.permutation:
                    component = cascade.levels[level][move.component]
                    assert sorted(move.permutation) == list(range(len(component.tiles)))
                    component.group.index(np.array(move.permutation))  # raises for what is not in the group
            configuration = cascade.step(configuration, symbol)


def test_factors() -> None:
    """Parity with a reset is one level; a group is one level with itself; star-free automata have trivial levels only."""

    def orders(name: str) -> list[list[int]]:
        return [[c.group.order for c in level] for level in holonomy(AUTOMATA[name]).levels]

    assert orders("parity with reset") == [[2]]
    assert orders("S4") == [[24]]
    assert orders("all maps of 3 points") == [[6], [2]]
    assert orders("one state") == []
    assert all(c.is_trivial for level in holonomy(from_regex("(ab)*", "ab")).levels for c in level)


@pytest.mark.parametrize(("n_states", "n_symbols", "seed"), [(12, 2, 0), (12, 2, 3), (12, 2, 8), (8, 4, 11)])
def test_random_automata_in_moderate_sizes(n_states: int, n_symbols: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    automaton = random_automaton(n_states, n_symbols, generator)
    assert holonomy(automaton).emulates(generator.integers(n_symbols, size=(10, 20)))


def test_a_wrong_cascade_is_noticed() -> None:
    right, wrong = Automaton([[0, 1], [1, 0]], [0, 1]), Automaton([[1, 0], [0, 1]], [0, 1])
    cascade = holonomy(right)
    object.__setattr__(cascade, "automaton", wrong)
    assert cascade.emulates([[0, 1, 1]])  # its moves are read off the automaton, so this one is right again
    object.__setattr__(cascade, "step", lambda configuration, symbol: configuration)
    assert not cascade.emulates([[0]])


def test_bad_states_and_symbols_are_refused() -> None:
    cascade = holonomy(AUTOMATA["flip-flop"])
    with pytest.raises(InvalidInputError, match=r"state must lie in 0 \.\. 1"):
        cascade.lift(2)
    with pytest.raises(InvalidInputError, match=r"symbol must lie in 0 \.\. 2"):
        cascade.moves(cascade.lift(0), 3)
