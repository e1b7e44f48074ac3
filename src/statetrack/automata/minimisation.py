"""The smallest automaton with a given behaviour."""

from __future__ import annotations

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.automata.search import trim


def minimise(automaton: Automaton) -> Automaton:
    """The unique smallest automaton that emits the same classes, in canonical form.

    States are numbered in breadth-first order (start 0, symbols in order), so automata with the same behaviour give equal
    results: ``minimise(a) == minimise(b)`` exactly when ``equivalent(a, b)``. Symbol names stay, state names are dropped.

    Source: E. F. Moore, "Gedanken-experiments on sequential machines", 1956: refine the partition by output class until
    every symbol leads from a block into one block.

    >>> minimise(Automaton([[1, 2], [0, 2], [0, 1]], [0, 0, 0])).n_states
    1
    """
    trimmed = trim(automaton)
    table = trimmed.transitions
    values, blocks = np.unique(trimmed.outputs, return_inverse=True)
    n_blocks, n_before = values.size, 0
    while n_before < n_blocks < trimmed.n_states:
        n_before = n_blocks
        for symbol in range(trimmed.n_symbols):
            values, blocks = np.unique(blocks * n_blocks + blocks[table[:, symbol]], return_inverse=True)
            n_blocks = values.size
    _, members = np.unique(blocks, return_index=True)
    return trim(Automaton(blocks[table[members]], trimmed.outputs[members], start=int(blocks[0]), symbols=trimmed.symbols))
