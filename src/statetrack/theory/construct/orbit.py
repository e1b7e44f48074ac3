"""What a matrix state can be, and which state of the automaton it stands for.

    S_t = A_{x_t} ... A_{x_1} ,   S_0 = I

Letters: S = state of the layer, A = transitions, x = symbols. Source: derived.
"""

from __future__ import annotations

import numpy as np

from statetrack.automata import Automaton
from statetrack.automata.arrays import IntArray
from statetrack.errors import InvalidInputError
from statetrack.theory.construct.representations import Array

_MOST = 20_000


def orbit(automaton: Automaton, transitions: Array) -> tuple[Array, IntArray]:
    """All matrices ``(n, d, d)`` that words of transitions ``(n_symbols, d, d)`` lead to, and the state ``(n,)`` each stands for.

    Raises:
        InvalidInputError: a matrix that stands for two states, or more than 20,000 matrices.
    """
    d = transitions.shape[-1]
    known: dict[bytes, int] = {}
    matrices, states = [np.eye(d)[None]], [np.array([automaton.start])]
    known[_key(matrices[0])[0]] = automaton.start
    while matrices[-1].size:
        after = np.einsum("vij,njk->nvik", transitions, matrices[-1]).reshape(-1, d, d)
        reached = automaton.transitions[states[-1]].reshape(-1)
        fresh = []
        for i, key in enumerate(_key(after)):
            if key not in known:
                known[key] = int(reached[i])
                fresh.append(i)
            elif known[key] != reached[i]:
                raise InvalidInputError("The representation does not tell the states of this automaton apart.")
        if len(known) > _MOST:
            raise InvalidInputError(f"The state of the layer would take more than {_MOST:,} values.")
        matrices.append(after[fresh])
        states.append(reached[fresh])
    return np.concatenate(matrices), np.concatenate(states)


def _key(matrices: Array) -> list[bytes]:
    rounded = np.round(matrices.reshape(len(matrices), -1) * 1e6).astype(np.int64)
    return [row.tobytes() for row in rounded]
