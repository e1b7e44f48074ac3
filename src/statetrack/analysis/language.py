"""Which words a task makes, where it asks, and what the right answers are: the statement that analyses are about.

A task draws words at random. A proof for every length has to speak of all of them, so the words are written here as a finite
graph: a state for each phase of a word, a move for each token that may come next. What a task asks only at the end of a word
counts at every prefix that is a word.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from statetrack.automata import Automaton, counterexample, minimise
from statetrack.errors import InvalidInputError
from statetrack.tasks import Task
from statetrack.tasks.automaton_task import LabelledWords
from statetrack.tasks.checks import task_title
from statetrack.tasks.cycle_navigation import CycleNavigation
from statetrack.tasks.even_pairs import EvenPairs
from statetrack.tasks.modular_arithmetic import PLUS, ModularArithmetic
from statetrack.tasks.parity import Parity

IntArray: TypeAlias = npt.NDArray[np.int64]
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Grammar:
    """The words of a task as a graph, without their answers.

    Attributes:
        moves: ``(n_states, vocab_size)`` int64, the next state, -1 where a token cannot come.
        asked: ``(n_states,)`` bool, whether an answer is asked for after the token that leads to a state.
        start: the state before the first token.
    """

    moves: IntArray
    asked: npt.NDArray[np.bool_]
    start: int

    @property
    def tokens(self) -> IntArray:
        """The tokens that occur in words, ascending."""
        return np.flatnonzero((self.moves >= 0).any(axis=0))

    def edges(self, states: Iterable[int] | IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """All moves out of some states: position of the state among those given, token, next state."""
        table = self.moves[np.asarray(states, dtype=np.int64)]
        source, token = np.nonzero(table >= 0)
        return source, token, table[source, token]

    def walk(self, words: IntArray) -> IntArray:
        """States ``(B, L)`` after each token of words ``(B, L)``; -1 from the first token on that cannot come."""
        table = np.concatenate([self.moves, np.full_like(self.moves[:1], -1)])  # the last row is that of state -1
        out = np.empty_like(words)
        state = np.full(len(words), self.start)
        for t in range(words.shape[1]):
            state = table[state, words[:, t]]
            out[:, t] = state
        return out

    def from_length(self, n_tokens: int) -> Grammar:
        """The same words without the questions asked before ``n_tokens`` tokens are read."""
        moves, _, asked = self._late(n_tokens)
        return Grammar(moves, asked, 0)

    def _late(self, n_tokens: int) -> tuple[IntArray, list[int], npt.NDArray[np.bool_]]:
        moves, states, read = _unfold(self, 0, lambda read, _: min(read + 1, n_tokens))
        return moves, states, self.asked[states] & (np.array(read) >= n_tokens)


@dataclass(frozen=True, eq=False)
class Specification(Grammar):
    """A grammar with the right answer at every state that asks for one.

    Attributes:
        answers: ``(n_states,)`` int64 class ids; -1 where nothing is asked.
        n_classes: number of classes of the task.
    """

    answers: IntArray
    n_classes: int

    def expected(self, words: IntArray) -> IntArray:
        """The right answers ``(B, L)`` along words ``(B, L)``; -1 where nothing is asked and from where a word is none."""
        states = self.walk(words)
        return np.where(states >= 0, self.answers[states], -1)

    def remembering(self, n_tokens: int) -> Specification:
        """The same words and answers with states that also tell the last ``n_tokens`` tokens apart."""
        nothing: tuple[int, ...] = ()
        moves, states, _ = _unfold(self, nothing, lambda recent, token: (*recent, token)[-n_tokens:] if n_tokens else ())
        return Specification(moves, self.asked[states], 0, self.answers[states], self.n_classes)

    def from_length(self, n_tokens: int) -> Specification:
        moves, states, asked = self._late(n_tokens)
        return Specification(moves, asked, 0, np.where(asked, self.answers[states], -1), self.n_classes)

    def automaton(self) -> Automaton:
        """The smallest machine over ``tokens`` that gives the answers; class ``n_classes`` stands for no question."""
        return moore(self, self.answers, self.n_classes)


def specification(task: Task) -> Specification:
    """The words of a task with their answers: its grammar beside its automaton.

    Raises:
        InvalidInputError: the task has no automaton, or does not say which words it makes.
    """
    grammar = grammar_of(task)
    if task.automaton is None:
        raise InvalidInputError(f"Nothing can be proved about answers to {task_title(task)}: it has no automaton.")
    automaton = task.automaton
    moves, phases, states = _unfold(grammar, automaton.start, lambda state, token: int(automaton.transitions[state, token]))
    asked = grammar.asked[phases]
    return Specification(moves, asked, 0, np.where(asked, automaton.outputs[states], -1), task.n_classes)


def _unfold(grammar: Grammar, first: T, following: Callable[[T, int], T]) -> tuple[IntArray, list[int], list[T]]:
    """Moves between the reachable pairs of a grammar's state and a memory, then the grammar's state and the memory of each."""
    pairs = [(grammar.start, first)]
    ids = {pairs[0]: 0}
    moves: list[list[int]] = []
    for state, memory in pairs:  # grows while it is walked
        row = [-1] * grammar.moves.shape[1]
        for token in np.flatnonzero(grammar.moves[state] >= 0).tolist():
            after = (int(grammar.moves[state, token]), following(memory, token))
            if after not in ids:
                ids[after] = len(ids)
                pairs.append(after)
            row[token] = ids[after]
        moves.append(row)
    return np.array(moves), [state for state, _ in pairs], [memory for _, memory in pairs]


def moore(grammar: Grammar, answers: npt.ArrayLike, n_classes: int, tokens: IntArray | None = None) -> Automaton:
    """A grammar with answers as a complete minimal automaton over its tokens (or those given).

    Answers -1 and tokens that cannot come become class ``n_classes``. A start state that nothing returns to is given the class
    of a state with the same successors, if there is one: no word has its answer read there, and so it does not count twice.
    """
    tokens = grammar.tokens if tokens is None else tokens
    sink = len(grammar.moves)
    table = np.concatenate([grammar.moves[:, tokens], np.full((1, len(tokens)), -1)])
    outputs = np.append(np.asarray(answers), -1)
    return tidied(np.where(table < 0, sink, table), np.where(outputs < 0, n_classes, outputs), grammar.start, tokens)


def tidied(table: IntArray, outputs: IntArray, start: int, tokens: IntArray) -> Automaton:
    """The minimal automaton over some tokens, its start state counted once (see ``moore``)."""
    symbols = tuple(str(token) for token in tokens)
    found = minimise(Automaton(table, outputs, start, symbols=symbols))
    if (found.transitions == found.start).any():
        return found
    twins = np.flatnonzero((found.transitions == found.transitions[found.start]).all(axis=1))
    twins = twins[twins != found.start]
    if not len(twins):
        return found
    outputs = found.outputs.copy()
    outputs[found.start] = outputs[twins[0]]
    return minimise(Automaton(found.transitions, outputs, found.start, symbols=symbols))


def difference(left: Automaton, right: Automaton) -> tuple[int, ...] | None:
    """A shortest word that is not empty after which two automata emit different classes, or None if there is none."""
    return counterexample(_fresh_start(left), _fresh_start(right))


def _fresh_start(automaton: Automaton) -> Automaton:
    """The same automaton with a start state of its own that emits class 0."""
    table = np.concatenate([automaton.transitions, automaton.transitions[automaton.start : automaton.start + 1]])
    return Automaton(table, np.append(automaton.outputs, 0), automaton.n_states, symbols=automaton.symbols)


@singledispatch
def grammar_of(task: Task) -> Grammar:
    """The words of a task. Other tasks enter theirs with ``@grammar_of.register``.

    Raises:
        InvalidInputError: it is not known which words the task makes.
    """
    raise InvalidInputError(f"It is not known which words {task_title(task)} makes; enter them with grammar_of.register.")


@grammar_of.register
def _free_words(task: Parity | EvenPairs | CycleNavigation) -> Grammar:
    layout = task.layout
    moves = np.full((3, task.vocab_size), -1)
    moves[:2, layout.symbols] = 1
    return _closed(moves, word=1, end=2, closing=layout.closing)


@grammar_of.register
def _expressions(task: ModularArithmetic) -> Grammar:
    layout = task.layout
    moves = np.full((3, task.vocab_size), -1)
    moves[0, layout.symbols[:PLUS]] = 1
    moves[1, layout.symbols[PLUS:]] = 0
    return _closed(moves, word=1, end=2, closing=layout.closing)


def _closed(moves: IntArray, *, word: int, end: int, closing: int | None) -> Grammar:
    """Asks in state ``word``, or in state ``end`` after the closing token if there is one."""
    asked = np.zeros(len(moves), dtype=bool)
    if closing is None:
        moves = np.delete(moves, end, axis=0)
        asked = np.delete(asked, end)
        asked[word] = True
    else:
        moves[word, closing] = end
        asked[end] = True
    return Grammar(moves, asked, 0)


@grammar_of.register
def _labelled(task: LabelledWords) -> Grammar:
    n_symbols, bos, fillers = task.words.n_symbols, int(task.bos), task.fillers
    # States: before the beginning token, before the first symbol, then so many fillers after a symbol.
    moves = np.full((bos + 2 + fillers, task.vocab_size), -1)
    first = bos + 1
    if bos:
        moves[0, task.padding + 1] = 1
    moves[[bos, first + fillers], :n_symbols] = first
    for i in range(fillers):
        moves[first + i, task.padding + 1 + bos] = first + i + 1
    asked = np.zeros(len(moves), dtype=bool)
    asked[first + fillers] = True
    return Grammar(moves, asked, 0)
