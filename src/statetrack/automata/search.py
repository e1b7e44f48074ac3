"""Breadth-first search over transition tables: which states can be reached, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton


class Level(NamedTuple):
    """The nodes first met after a given number of symbols, ordered by the alphabetically first word that leads to each.

    Attributes:
        nodes: ids of the nodes.
        parents: for each node, the position of its predecessor in the order of all nodes met so far; -1 for the root.
        symbols: for each node, the symbol that leads from the predecessor to it; -1 for the root.
    """

    nodes: IntArray
    parents: IntArray
    symbols: IntArray


def breadth_first(successors: Callable[[IntArray], IntArray], root: int, n_nodes: int) -> Iterator[Level]:
    """Search from ``root`` level by level; ``successors`` maps nodes ``(m,)`` to their successors ``(m, n_symbols)``."""
    seen = np.zeros(n_nodes, dtype=bool)
    nodes, none, n_met = np.array([root], dtype=np.int64), np.array([-1], dtype=np.int64), 0
    level = Level(nodes, none, none)
    while level.nodes.size:
        yield level
        seen[level.nodes] = True
        table = successors(level.nodes)
        n_symbols, targets = table.shape[1], table.ravel()
        fresh = np.flatnonzero(~seen[targets])
        slots = fresh[np.sort(np.unique(targets[fresh], return_index=True)[1])]
        parents, symbols = np.divmod(slots, n_symbols)
        n_before, n_met = n_met, n_met + level.nodes.size
        level = Level(targets[slots], parents + n_before, symbols)


def reachable(automaton: Automaton) -> IntArray:
    """The states that some word reaches, in breadth-first order from the start state.

    >>> reachable(Automaton([[2, 0], [1, 1], [0, 0]], [0, 1, 2])).tolist()
    [0, 2]
    """
    table = automaton.transitions
    return np.concatenate([level.nodes for level in breadth_first(table.__getitem__, automaton.start, automaton.n_states)])


def trim(automaton: Automaton) -> Automaton:
    """The same automaton without unreachable states, numbered in breadth-first order (the start state becomes 0)."""
    kept = reachable(automaton)
    new_id = np.full(automaton.n_states, -1, dtype=np.int64)
    new_id[kept] = np.arange(kept.size)
    names = automaton.state_names
    return Automaton(
        transitions=new_id[automaton.transitions[kept]],
        outputs=automaton.outputs[kept],
        symbols=automaton.symbols,
        state_names=None if names is None else tuple(names[state] for state in kept),
    )
