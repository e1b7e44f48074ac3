"""The finite automaton: a transition table, an output class for each state and a start state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray, as_ids, frozen
from statetrack.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Automaton:
    """A complete deterministic Moore machine: reading symbol ``x`` in state ``q`` leads to ``transitions[q, x]``.

    Two automata are equal when tables and start agree; names do not count. Equality up to the numbering of states is
    ``minimise(a) == minimise(b)``, and equal behaviour is ``equivalent(a, b)``.

    Attributes:
        transitions: ``(n_states, n_symbols)`` int64, the next state. Kept as a read-only copy.
        outputs: ``(n_states,)`` int64, the class emitted in a state, from 0 on. Kept as a read-only copy.
        start: the state before the first symbol.
        symbols: names of the symbols, if they have any.
        state_names: names of the states, if they have any.

    Raises:
        InvalidInputError: a table of the wrong shape, an id out of range, or names that do not fit.

    >>> parity = Automaton([[0, 1], [1, 0]], [0, 1], symbols=("a", "b"))
    >>> parity.output(parity.encode("abba")).tolist()
    [0, 1, 0, 0]
    """

    transitions: IntArray
    outputs: IntArray
    start: int = 0
    symbols: tuple[str, ...] | None = None
    state_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        transitions = as_ids(self.transitions, "transitions", ndim=2)
        n_states, n_symbols = transitions.shape
        if n_states == 0 or n_symbols == 0:
            raise InvalidInputError(f"transitions needs at least one state and one symbol, but has shape {transitions.shape}.")
        as_ids(transitions, "transitions", n_states)
        outputs = as_ids(self.outputs, "outputs", ndim=1)
        if len(outputs) != n_states:
            raise InvalidInputError(f"outputs must have one class for each of the {n_states} states, but has {len(outputs)}.")
        start = as_ids(self.start, "start", n_states, ndim=0)
        object.__setattr__(self, "transitions", frozen(transitions))
        object.__setattr__(self, "outputs", frozen(outputs))
        object.__setattr__(self, "start", int(start))
        object.__setattr__(self, "symbols", _names(self.symbols, "symbols", n_symbols))
        object.__setattr__(self, "state_names", _names(self.state_names, "state_names", n_states))

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.transitions.shape[0])

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return int(self.transitions.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of output classes: the largest class emitted, plus one."""
        return int(self.outputs.max()) + 1

    def step(self, states: npt.ArrayLike, symbols: npt.ArrayLike) -> IntArray:
        """The states after one more symbol; ``states`` and ``symbols`` are id arrays that broadcast together.

        Raises:
            InvalidInputError: ids out of range, or shapes that do not broadcast.
        """
        states_ = as_ids(states, "states", self.n_states)
        symbols_ = as_ids(symbols, "symbols", self.n_symbols)
        try:
            np.broadcast_shapes(states_.shape, symbols_.shape)
        except ValueError:
            message = f"states of shape {states_.shape} and symbols of shape {symbols_.shape} do not broadcast together."
            raise InvalidInputError(message) from None
        return np.asarray(self.transitions[states_, symbols_])

    def run(self, words: npt.ArrayLike, initial_states: npt.ArrayLike | None = None) -> IntArray:
        """The states visited: entry ``t`` is the state after symbols ``0 .. t``.

        Args:
            words: ``(..., L)`` symbol ids; ``L`` may be 0.
            initial_states: states before the first symbol, broadcast to ``(...)``; the start state if None.

        Returns:
            ``(..., L)`` int64 state ids.

        Raises:
            InvalidInputError: ids out of range, or shapes that do not fit.
        """
        words_, states = self._checked(words, initial_states)
        batch_shape, length = words_.shape[:-1], words_.shape[-1]
        table, n_symbols = self.transitions.ravel(), self.n_symbols
        time_major = np.ascontiguousarray(words_.reshape(states.size, length).T)
        visited = np.empty_like(time_major)
        states = states.ravel()
        for t in range(length):
            states = table[states * n_symbols + time_major[t]]
            visited[t] = states
        return np.ascontiguousarray(visited.T).reshape(*batch_shape, length)

    def final(self, words: npt.ArrayLike, initial_states: npt.ArrayLike | None = None) -> IntArray:
        """The state after the whole word, ``(...)`` for words ``(..., L)``; the initial state if ``L`` is 0."""
        words_, states = self._checked(words, initial_states)
        return np.asarray(self.run(words_, states)[..., -1] if words_.shape[-1] else states)

    def output(self, words: npt.ArrayLike, initial_states: npt.ArrayLike | None = None) -> IntArray:
        """The class emitted after each symbol, ``(..., L)`` for words ``(..., L)``."""
        return np.asarray(self.outputs[self.run(words, initial_states)])

    def encode(self, word: Iterable[str]) -> IntArray:
        """The ids ``(L,)`` of a word written in symbol names (a string is read letter by letter).

        Raises:
            InvalidInputError: the symbols have no names, or a name is not among them.
        """
        if self.symbols is None:
            raise InvalidInputError("The symbols of this automaton have no names; give ids, or construct it with symbols=(...).")
        ids = {name: i for i, name in enumerate(self.symbols)}
        letters = list(word)
        unknown = [letter for letter in letters if letter not in ids]
        if unknown:
            raise InvalidInputError(f"{unknown[0]!r} is not a symbol of this automaton; it reads {', '.join(self.symbols)}.")
        return np.array([ids[letter] for letter in letters], dtype=np.int64)

    def _checked(self, words: npt.ArrayLike, initial_states: npt.ArrayLike | None) -> tuple[IntArray, IntArray]:
        words_ = as_ids(words, "words", self.n_symbols)
        if words_.ndim == 0:
            raise InvalidInputError("words must have a last axis that runs over the symbols of a word, but is a single number.")
        states = as_ids(self.start if initial_states is None else initial_states, "initial_states", self.n_states)
        try:
            return words_, np.broadcast_to(states, words_.shape[:-1])
        except ValueError:
            message = f"initial_states of shape {states.shape} does not broadcast to the batch shape {words_.shape[:-1]}."
            raise InvalidInputError(message) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Automaton):
            return NotImplemented
        return (
            self.start == other.start
            and np.array_equal(self.transitions, other.transitions)
            and np.array_equal(self.outputs, other.outputs)
        )

    def __hash__(self) -> int:
        return hash((self.start, self.transitions.shape, self.transitions.tobytes(), self.outputs.tobytes()))

    def __repr__(self) -> str:
        return f"Automaton(n_states={self.n_states}, n_symbols={self.n_symbols}, n_outputs={self.n_outputs}, start={self.start})"


def _names(names: Iterable[str] | None, what: str, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise InvalidInputError(f"{what} must be {count} different names, but is {names!r}.")
    names = tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"{what} must be strings, but holds {names}.")
    if len(names) != count or len(set(names)) != count:
        raise InvalidInputError(f"{what} must be {count} different names, but is {names}.")
    return names
