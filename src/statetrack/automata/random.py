"""Random automata: any transition maps, or permutations of the states only."""

from __future__ import annotations

import numpy as np

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton
from statetrack.automata.search import reachable
from statetrack.errors import InvalidInputError


def random_automaton(
    n_states: int, n_symbols: int, generator: np.random.Generator, n_outputs: int | None = None, connected: bool = True
) -> Automaton:
    """An automaton with random transitions and start state 0.

    Args:
        n_states: number of states.
        n_symbols: number of symbols.
        generator: the only source of randomness.
        n_outputs: number of output classes, each used by at least one state; by default a state emits its own id.
        connected: make every state reachable. A random spanning tree is planted and the other transitions stay uniform, so the
            law is not the uniform one over connected automata. Otherwise every transition is uniform.

    Raises:
        InvalidInputError: sizes below 1, or more output classes than states.
    """
    outputs = _outputs(n_states, n_symbols, generator, n_outputs)
    transitions = generator.integers(n_states, size=(n_states, n_symbols))
    if connected:
        _plant_tree(transitions, generator)
    return Automaton(transitions, outputs)


def random_permutation_automaton(
    n_states: int, n_symbols: int, generator: np.random.Generator, n_outputs: int | None = None, connected: bool = True
) -> Automaton:
    """An automaton in which every symbol permutes the states, uniform among all such (connected) automata.

    Arguments and errors are those of ``random_automaton``.
    """
    outputs = _outputs(n_states, n_symbols, generator, n_outputs)
    if connected and n_symbols == 1:  # the permutation must be one cycle, too rare to wait for
        cycle = generator.permutation(n_states)
        transitions = np.empty((n_states, 1), dtype=np.int64)
        transitions[cycle, 0] = np.roll(cycle, -1)
        return Automaton(transitions, outputs)
    columns = np.tile(np.arange(n_states)[:, None], n_symbols)
    while True:
        automaton = Automaton(generator.permuted(columns, axis=0), outputs)
        if not connected or reachable(automaton).size == n_states:
            return automaton


def _outputs(n_states: int, n_symbols: int, generator: np.random.Generator, n_outputs: int | None) -> IntArray:
    if n_states < 1 or n_symbols < 1:
        raise InvalidInputError(f"n_states and n_symbols must be at least 1, but are {n_states} and {n_symbols}.")
    if not isinstance(generator, np.random.Generator):
        raise InvalidInputError(f"generator must be a numpy.random.Generator, but is {type(generator).__name__}.")
    if n_outputs is None:
        return np.arange(n_states)
    if not 1 <= n_outputs <= n_states:
        raise InvalidInputError(f"n_outputs must lie in 1 .. {n_states} (the number of states), but is {n_outputs}.")
    every_class, others = np.arange(n_outputs), generator.integers(n_outputs, size=n_states - n_outputs)
    return generator.permutation(np.concatenate([every_class, others]))


def _plant_tree(transitions: IntArray, generator: np.random.Generator) -> None:
    """Overwrite transitions in place so that a tree rooted in state 0 spans all states."""
    n_states, n_symbols = transitions.shape
    free = [(0, symbol) for symbol in range(n_symbols)]
    for state in 1 + generator.permutation(n_states - 1):
        slot = int(generator.integers(len(free)))
        free[slot], free[-1] = free[-1], free[slot]
        transitions[free.pop()] = state
        free.extend((int(state), symbol) for symbol in range(n_symbols))
