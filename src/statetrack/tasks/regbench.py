"""Random automata in context (RegBench): strings of an automaton that is new in every sequence; which symbol may come next?

    | s1 s2 s3 | s1 s2 | ...      target at each token: the next symbol, unless the string ends there

Source: In-Context Language Learning: Architectures and Algorithms (arXiv 2401.12973).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from statetrack.automata.automaton import Automaton
from statetrack.automata.minimisation import minimise
from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, whole_number
from statetrack.tasks.layout import IntArray, batch_of

_LEAST = 4
"""Fewest states and symbols of an automaton before it is minimised."""


@register("regbench")
class RegBench(Task):
    """The next symbol in random walks through a random automaton, one automaton for each sequence.

    An automaton has 4 to ``n_states`` states and uses 4 to ``n_symbols`` symbols; one to ``n_edges`` symbols lead on from each
    state, each to a different state other than itself; then it is minimised. A string is a walk of 1 to ``string_length`` symbols
    from the start, uniform over what leads on. A sequence begins with a separator, and strings follow until it is full; the
    published ones hold 10 to 19 strings. Where a string ends nothing is asked.

    Chance is a guess among all symbols. Even who knows the automaton is right only once in as many times as symbols lead on:
    ``sample_legal`` tells which are legal, and ``legal_share`` how many answers are.

    Args:
        n_symbols: number of symbols.
        n_states: most states.
        n_edges: most symbols that lead on from a state.
        string_length: most symbols of a string.

    Raises:
        InvalidInputError: fewer than four symbols or states, or as many edges as states.

    >>> task = RegBench()
    >>> batch, legal = task.sample_legal(2, 20, np.random.default_rng(0))
    >>> legal_share(batch.targets.numpy(), batch.mask.numpy(), legal)
    1.0
    """

    summary = "next symbol of strings of a random automaton, new in every sequence"
    source = "arXiv 2401.12973"
    ceiling = None

    def __init__(self, *, n_symbols: int = 18, n_states: int = 12, n_edges: int = 3, string_length: int = 49) -> None:
        self.n_symbols = whole_number("n_symbols", n_symbols, low=_LEAST)
        self.n_states = whole_number("n_states", n_states, low=_LEAST)
        self.n_edges = whole_number("n_edges", n_edges, low=1)
        if self.n_edges >= _LEAST:
            raise InvalidInputError(f"n_edges must be at most {_LEAST - 1}, as automata may have {_LEAST} states; got {n_edges}.")
        self.string_length = whole_number("string_length", string_length, low=1)
        self.separator = self.padding = self.n_symbols
        self.vocab_size, self.n_classes = self.n_symbols + 1, self.n_symbols
        self.chance = 1 / self.n_symbols

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        return self.sample_legal(batch_size, length, generator)[0]

    def sample_legal(
        self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator
    ) -> tuple[Batch, npt.NDArray[np.bool_]]:
        """A batch as of ``sample``, and ``(B, L, n_symbols)`` which next symbols its automata allow."""
        lengths = row_lengths(self, batch_size, length)
        machines = [self.random_machine(generator) for _ in range(batch_size)]
        table = np.zeros((batch_size, max(len(each) for each in machines), self.n_symbols), dtype=np.int64) - 1
        for row, machine in enumerate(machines):
            table[row, : len(machine)] = machine
        return self._walks(table, lengths, generator)

    def _walks(self, table: IntArray, lengths: IntArray, generator: np.random.Generator) -> tuple[Batch, npt.NDArray[np.bool_]]:
        width, rows = int(lengths.max()), np.arange(len(lengths))
        tokens = np.full((len(rows), width + 1), self.separator, dtype=np.int64)
        legal = np.zeros((len(rows), width, self.n_symbols), dtype=bool)
        state, left = np.zeros(len(rows), dtype=np.int64), generator.integers(1, self.string_length + 1, size=len(rows))
        for t in range(width):
            legal[:, t] = table[rows, state] >= 0
            picked = np.where(legal[:, t], generator.random(legal[:, t].shape), -1.0).argmax(axis=1)
            going = left > 0
            tokens[going, t + 1] = picked[going]
            state = np.where(going, table[rows, state, picked], 0)
            left = np.where(going, left - 1, generator.integers(1, self.string_length + 1, size=len(rows)))
        targets = tokens[:, 1:]
        return batch_of(tokens[:, :-1], targets, targets != self.separator, lengths, self.padding), legal

    def random_machine(self, generator: np.random.Generator) -> IntArray:
        """``(n_states, n_symbols)`` next state of one minimal automaton, -1 where a symbol is not allowed; it starts in 0."""
        n_states = int(generator.integers(_LEAST, self.n_states + 1))
        alphabet = generator.permutation(self.n_symbols)[: generator.integers(_LEAST, self.n_symbols + 1)]
        table = np.full((n_states + 1, self.n_symbols), n_states, dtype=np.int64)
        for state in range(n_states):
            n_edges = int(generator.integers(1, self.n_edges + 1))
            others = generator.permutation(n_states - 1)[:n_edges]
            table[state, generator.permutation(alphabet)[:n_edges]] = others + (others >= state)
        minimal = minimise(Automaton(table, (np.arange(n_states + 1) == n_states).astype(np.int64)))
        dead = minimal.outputs == 1
        new_id = np.where(dead, -1, np.cumsum(~dead) - 1)
        return np.asarray(new_id[minimal.transitions[~dead]])


def legal_share(answers: IntArray, mask: npt.NDArray[np.bool_], legal: npt.NDArray[np.bool_]) -> float:
    """Share of the asked answers ``(B, L)`` that the automata ``(B, L, n_symbols)`` allow: the published DFA accuracy."""
    return float(np.take_along_axis(legal, answers[:, :, None], axis=2)[:, :, 0][mask].mean())


def best_share(mask: npt.NDArray[np.bool_], legal: npt.NDArray[np.bool_]) -> float:
    """Expected accuracy of who knows the automata and guesses among what they allow."""
    return float((1 / legal.sum(axis=2)[mask]).mean())
