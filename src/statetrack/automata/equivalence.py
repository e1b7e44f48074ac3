"""Do two automata behave alike, and if not, on which word do they differ?"""

from __future__ import annotations

import numpy as np

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton
from statetrack.automata.products import check_same_alphabet
from statetrack.automata.search import Level, breadth_first


def counterexample(left: Automaton, right: Automaton) -> tuple[int, ...] | None:
    """A shortest word after which the two automata emit different classes, or None if there is none.

    Among the shortest words it is the first in alphabetical order. It is empty if the start states already differ.

    Raises:
        InvalidInputError: the alphabets differ.

    >>> counterexample(Automaton([[1], [1]], [0, 1]), Automaton([[1], [0]], [0, 1]))
    (0, 0)
    """
    check_same_alphabet(left, right)

    def successors(pairs: IntArray) -> IntArray:
        p, q = np.divmod(pairs, right.n_states)
        return np.asarray(left.transitions[p] * right.n_states + right.transitions[q])

    root = left.start * right.n_states + right.start
    levels: list[Level] = []
    for level in breadth_first(successors, root, left.n_states * right.n_states):
        levels.append(level)
        p, q = np.divmod(level.nodes, right.n_states)
        different = np.flatnonzero(left.outputs[p] != right.outputs[q])
        if different.size:
            return _word(levels, int(different[0]))
    return None


def equivalent(left: Automaton, right: Automaton) -> bool:
    """Whether both automata emit the same class after every word, the empty one included.

    Raises:
        InvalidInputError: the alphabets differ.
    """
    return counterexample(left, right) is None


def _word(levels: list[Level], position: int) -> tuple[int, ...]:
    """The word that leads to the node at ``position`` of the last level."""
    parents = np.concatenate([level.parents for level in levels])
    symbols = np.concatenate([level.symbols for level in levels])
    node = parents.size - levels[-1].nodes.size + position
    word = []
    while parents[node] >= 0:
        word.append(int(symbols[node]))
        node = parents[node]
    return tuple(reversed(word))
