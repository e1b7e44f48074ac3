"""Uniform words of one length that an automaton accepts, by counting paths.

    c_0[q] = [q accepts],   c_{r+1}[q] = sum_a c_r[q a]
    with r letters to go, letter a is next with probability c_{r-1}[q a] / c_r[q]

Counts are exact whole numbers of any size: over 64 letters there are 2^300 words of length 50. Only their ratios are rounded, to
double precision.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton
from statetrack.errors import InvalidInputError


class WordCounts:
    """How many words of each length lead from each state to an accepting one.

    Args:
        automaton: transitions and start state.
        accepting: ``(n_states,)`` bool, the states that accept.

    >>> even_ones = WordCounts(Automaton([[0, 1], [1, 0]], [1, 0]), np.array([True, False]))
    >>> even_ones.count(10)
    512
    """

    def __init__(self, automaton: Automaton, accepting: npt.NDArray[np.bool_]) -> None:
        self.automaton = automaton
        self._counts = np.array([int(accepts) for accepts in accepting], dtype=object)
        self._totals = [int(self._counts[automaton.start])]
        self._laws: list[npt.NDArray[np.float64]] = []

    def count(self, length: int) -> int:
        """Number of accepted words of one length."""
        self._extend(length)
        return self._totals[length]

    def sample(self, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        """Uniform accepted words, ``(B, W)``, one of each length; 0 right of a word.

        Raises:
            InvalidInputError: no word of that length is accepted.
        """
        width = int(lengths.max())
        self._extend(width)
        for length in np.unique(lengths).tolist():
            if not self._totals[length]:
                raise InvalidInputError(f"The automaton accepts no word of length {length}.")
        words = np.zeros((len(lengths), width), dtype=np.int64)
        states = np.full(len(lengths), self.automaton.start, dtype=np.int64)
        drawn = generator.random((len(lengths), width))
        for t in range(width):
            for left in np.unique(lengths - t)[::-1].tolist():
                if left <= 0:
                    break
                rows = np.flatnonzero(lengths - t == left)
                law = self._laws[left - 1][states[rows]]
                words[rows, t] = (drawn[rows, t, None] >= law).sum(axis=1)
            rows = np.flatnonzero(lengths > t)
            states[rows] = self.automaton.transitions[states[rows], words[rows, t]]
        return words

    def _extend(self, length: int) -> None:
        """Count up to words of one length. ``_laws[r]`` is cumulative over letters with ``r + 1`` letters to go."""
        table = self.automaton.transitions
        while len(self._laws) < length:
            by_letter = self._counts[table]
            self._counts = by_letter.sum(axis=1)
            cumulative = np.cumsum(by_letter[:, :-1], axis=1)
            totals = np.where(self._counts == 0, 1, self._counts)[:, None]
            self._laws.append((cumulative / totals).astype(np.float64))
            self._totals.append(int(self._counts[self.automaton.start]))
