"""The letters of an automaton: its symbols that act differently, their maps, and the group that they generate."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from statetrack.automata import Automaton, Group, image_sets
from statetrack.automata.arrays import IntArray
from statetrack.errors import InvalidInputError
from statetrack.theory.construct.tagger import ExactTagger, put


def start_first(automaton: Automaton) -> Automaton:
    """The same automaton with its start state numbered 0."""
    order = np.arange(automaton.n_states)
    order[[0, automaton.start]] = order[[automaton.start, 0]]  # a swap: its own inverse
    return Automaton(order[automaton.transitions[order]], automaton.outputs[order])


def letter_columns(automaton: Automaton) -> tuple[IntArray, IntArray]:
    """The letter ``(n_symbols,)`` of each symbol, and the map ``(n_letters, n_states)`` of each letter."""
    maps, columns = np.unique(automaton.transitions.T, axis=0, return_inverse=True)
    return columns.ravel(), maps


def one_hot_head(model: ExactTagger, automaton: Automaton) -> None:
    """A head that reads a state, one-hot in the first features."""
    weight = np.zeros(tuple(model.head.weight.shape))
    weight[automaton.outputs, np.arange(automaton.n_states)] = 1
    put(model.head.weight, weight)


@lru_cache(maxsize=32)
def permutation_group(automaton: Automaton) -> tuple[Group, IntArray]:
    """The group of all words of a minimal permutation automaton and the element ``(n_symbols,)`` of each symbol.

    Raises:
        InvalidInputError: some symbol is no permutation.
    """
    maps = automaton.transitions.T
    if (np.sort(maps, axis=1) != np.arange(automaton.n_states)).any():
        raise InvalidInputError("This construction is for automata whose symbols permute the states; here one merges states.")
    classes = image_sets(automaton).classes
    group = next(c.group for c in classes if c.points.size == automaton.n_states) if automaton.n_states > 1 else None
    if group is None:
        group = Group("C1", np.zeros((1, 1), dtype=np.int64), ())
    return group, group.index(maps)
