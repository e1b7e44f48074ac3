"""The automaton itself: runs against a plain Python walk, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError

MOD3 = Automaton([[0, 1], [1, 2], [2, 0]], [5, 0, 2], start=1, symbols=("stay", "add"), state_names=("0", "1", "2"))


def walk(automaton: Automaton, word: list[int], state: int) -> list[int]:
    visited = []
    for symbol in word:
        state = int(automaton.transitions[state][symbol])
        visited.append(state)
    return visited


@pytest.mark.parametrize("batch_shape", [(), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_run_equals_a_walk_symbol_by_symbol(batch_shape: tuple[int, ...], length: int) -> None:
    rng = np.random.default_rng(0)
    machine = Automaton(rng.integers(5, size=(5, 3)), rng.integers(4, size=5), start=2)
    words = rng.integers(3, size=(*batch_shape, length))
    initial = rng.integers(5, size=batch_shape)
    for given, first in ((None, np.full(batch_shape, 2)), (initial, initial)):
        states = machine.run(words, given)
        assert states.shape == words.shape
        assert states.dtype == np.int64
        for index in np.ndindex(*batch_shape):
            expected = walk(machine, words[index].tolist(), int(first[index]))
            assert states[index].tolist() == expected
            assert machine.output(words, given)[index].tolist() == [int(machine.outputs[q]) for q in expected]
            assert machine.final(words, given)[index] == (expected[-1] if expected else first[index])


def test_initial_states_broadcast_over_the_batch() -> None:
    assert MOD3.run([[1, 1], [0, 1]], 2).tolist() == [[0, 1], [2, 0]]
    assert MOD3.final(np.zeros((2, 0), dtype=int), [[2], [0]][0]).tolist() == [2, 2]


def test_step_broadcasts_states_against_symbols() -> None:
    assert MOD3.step([[0], [1], [2]], [0, 1]).tolist() == MOD3.transitions.tolist()
    assert MOD3.step(2, 1) == 0


def test_sizes_names_and_encoding() -> None:
    assert (MOD3.n_states, MOD3.n_symbols, MOD3.n_outputs) == (3, 2, 6)
    assert MOD3.encode(["add", "stay", "add"]).tolist() == [1, 0, 1]
    assert Automaton([[0, 0]], [0], symbols="ab").encode("abba").tolist() == [0, 1, 1, 0]
    assert MOD3.encode([]).shape == (0,)


def test_tables_are_copied_and_read_only() -> None:
    table = np.array([[0, 1], [1, 0]])
    machine = Automaton(table, [False, True])
    table[0, 0] = 1
    assert machine.transitions[0, 0] == 0
    assert machine.outputs.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        machine.transitions[0, 0] = 1


def test_equality_is_that_of_the_tables() -> None:
    same = Automaton(MOD3.transitions, MOD3.outputs, start=1)
    assert same == MOD3
    assert hash(same) == hash(MOD3)
    assert Automaton(MOD3.transitions, MOD3.outputs, start=0) != MOD3
    assert Automaton(MOD3.transitions, [5, 0, 3], start=1) != MOD3
    assert Automaton(MOD3.transitions[:, ::-1], MOD3.outputs, start=1) != MOD3
    assert MOD3 != "MOD3"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transitions": [[0, 2], [1, 0]]}, "0 .. 1, but holds 2"),
        ({"transitions": [[0, -1], [1, 0]]}, "holds -1"),
        ({"transitions": [0, 1]}, "2 axes"),
        ({"transitions": [[0, 1], [1]]}, "rectangular"),
        ({"transitions": [[0.0, 1.0], [1.0, 0.0]]}, "float64"),
        ({"transitions": np.zeros((0, 2), dtype=int), "outputs": []}, "at least one state"),
        ({"transitions": np.zeros((2, 0), dtype=int)}, "one symbol"),
        ({"outputs": [0]}, "2 states, but has 1"),
        ({"outputs": [0, -1]}, "holds -1"),
        ({"outputs": ["a", "b"]}, "whole numbers"),
        ({"start": 2}, "start must lie in 0 .. 1"),
        ({"start": 0.5}, "start"),
        ({"symbols": ("a",)}, "2 different names"),
        ({"symbols": ("a", "a")}, "2 different names"),
        ({"symbols": (0, 1)}, "strings"),
        ({"state_names": ("p", "q", "r")}, "2 different names"),
    ],
)
def test_bad_tables_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Automaton(**({"transitions": [[0, 1], [1, 0]], "outputs": [0, 1]} | arguments))


def test_bad_words_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"words must lie in 0 .. 1, but holds 2"):
        MOD3.run([0, 2])
    with pytest.raises(InvalidInputError, match="holds -1"):
        MOD3.final([[0, -1]])
    with pytest.raises(InvalidInputError, match="float64"):
        MOD3.output([0.0, 1.0])
    with pytest.raises(InvalidInputError, match="single number"):
        MOD3.run(1)
    with pytest.raises(InvalidInputError, match="initial_states"):
        MOD3.run([0, 1], 3)
    with pytest.raises(InvalidInputError, match="broadcast"):
        MOD3.run([[0, 1]], [0, 1])
    with pytest.raises(InvalidInputError, match="broadcast"):
        MOD3.step([0, 1], [0, 1, 1])
    with pytest.raises(InvalidInputError, match="'sub' is not a symbol"):
        MOD3.encode(["sub"])
    with pytest.raises(InvalidInputError, match="no names"):
        Automaton([[0]], [0]).encode("a")
