"""Learning the automaton of any model from its answers, with L* or KV.

Sources: D. Angluin, "Learning regular sets from queries and counterexamples", 1987; M. Kearns and U. Vazirani, "An Introduction
to Computational Learning Theory", 1994. The learners are those of AALpy.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from statetrack.analysis import runs
from statetrack.analysis.language import Grammar, difference, tidied
from statetrack.analysis.words import random_words
from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]
Learner = Literal["kv", "lstar"]
Word = tuple[int, ...]


@dataclass(frozen=True)
class BlackBox:
    """Attributes:
    automaton: minimal, over ``grammar.tokens``; class ``n_classes`` stands for no question.
    queries: number of words that the learner asked about.
    words: number of random words on which the result was compared with the model.
    complete: whether learning ended because no difference was found, and not at the largest number of states.
    """

    automaton: Automaton
    queries: int
    words: int
    complete: bool


def learn(
    model: Tagger,
    grammar: Grammar,
    generator: np.random.Generator,
    *,
    learner: Learner = "kv",
    target: Automaton | None = None,
    lengths: tuple[int, ...] = (8, 40, 160),
    n: int = 256,
    max_states: int = 500,
) -> BlackBox:
    """Learn the automaton of a model.

    A hypothesis counts as right when it agrees with the model on ``n`` random words of each length and, where there is a target,
    on the shortest word on which hypothesis and target differ.

    Args:
        model: in evaluation mode.
        grammar: the words; tokens that cannot come lead to a state where nothing is asked.
        generator: of the random words.
        learner: ``"kv"`` (few questions) or ``"lstar"``.
        target: an automaton over ``grammar.tokens`` that the model may have learnt.
        lengths: of the random words: within and beyond what the model was trained on.
        n: number of random words of each length.
        max_states: learning ends at that many.

    Raises:
        MissingExtraError: AALpy is not installed.
        InvalidInputError: an unknown learner.
    """
    if learner not in get_args(Learner):
        raise InvalidInputError(f"learner must be one of {', '.join(get_args(Learner))}; got {learner!r}.")
    try:
        from aalpy.base import SUL, Oracle
        from aalpy.learning_algs import run_KV, run_Lstar
    except ImportError:
        raise MissingExtraError("aalpy", "extract", "Learning an automaton from answers") from None

    answers = Answers(model, grammar)
    letters = [int(token) for token in grammar.tokens]

    class System(SUL):  # type: ignore[misc]
        """The model as AALpy asks it."""

        def query(self, word: Word) -> list[int]:
            self.num_queries += 1
            self.num_steps += len(word)
            return answers.along(word)

        def pre(self) -> None:
            self.word: Word = ()

        def step(self, letter: int | None) -> int:
            self.word = self.word if letter is None else (*self.word, letter)
            return answers.along(self.word)[-1]

        def post(self) -> None:
            pass

    class Comparison(Oracle):  # type: ignore[misc]
        """Looks for a word on which a hypothesis is wrong."""

        full = False
        compared = 0

        def find_cex(self, hypothesis: Any) -> Word | None:
            self.full = len(hypothesis.states) >= max_states
            guess = _automaton(hypothesis, letters)
            if self.full:
                return None
            if target is not None:
                word = difference(guess, target)
                wrong = None if word is None else self._differs(guess, tuple(letters[symbol] for symbol in word))
                if wrong is not None:
                    return wrong
            # Most hypotheses are wrong and fall at once; only what survives is compared at length.
            for length, count in [(lengths[0], min(n, 16)), *((length, n) for length in lengths)]:
                words = random_words(grammar, count, length, generator)
                self.compared += count
                phases = grammar.walk(words)
                inside = phases >= 0
                given = np.where(inside & grammar.asked[phases], runs.classes(model, words), model.n_classes)
                symbols = np.minimum(np.searchsorted(grammar.tokens, words), len(letters) - 1)
                row, place = np.nonzero(inside & (guess.output(symbols) != given))
                if len(row):
                    first = int(place.argmin())
                    return tuple(words[row[first], : place[first] + 1].tolist())
            return None

        def _differs(self, guess: Automaton, word: Word) -> Word | None:
            said = guess.output(np.searchsorted(grammar.tokens, word)).tolist()
            wrong = [i for i, (a, b) in enumerate(zip(said, answers.along(word), strict=True)) if a != b]
            return word[: wrong[0] + 1] if wrong else None

    system, oracle = System(), Comparison(letters, None)
    oracle.sul = system
    run = run_KV if learner == "kv" else run_Lstar
    found = run(letters, system, oracle, automaton_type="moore", cache_and_non_det_check=False, print_level=0)
    guess = _automaton(found, letters)
    automaton = tidied(guess.transitions, guess.outputs, guess.start, grammar.tokens)
    return BlackBox(automaton, int(system.num_queries), oracle.compared, not oracle.full)


class Answers:
    """A model's answers by word, each computed once, from the state stored for the word's longest known prefix.

    Args:
        model: in evaluation mode, with a state of constant size.
        grammar: the words.
        stored: most states kept.
    """

    def __init__(self, model: Tagger, grammar: Grammar, stored: int = 50_000) -> None:
        self.model, self.grammar, self.stored = model, grammar, stored
        self.states: OrderedDict[Word, list[Any]] = OrderedDict({(): model.initial_state(1)})
        self.known: dict[Word, int] = {(): model.n_classes}

    def along(self, word: Word) -> list[int]:
        """The answer after each token, ``n_classes`` where none is asked; for the empty word its own."""
        phases = self.grammar.walk(np.array([word], dtype=np.int64))[0]
        inside = word[: int((phases >= 0).sum())]
        for end in range(1, len(inside) + 1):
            if inside[:end] not in self.known:
                self._expand(inside[: end - 1])
        nothing = [self.model.n_classes] * (len(word) - len(inside))
        return [self.known[inside[:end]] for end in range(1, len(inside) + 1)] + nothing or [self.known[()]]

    def _expand(self, prefix: Word) -> None:
        """Answers and states of every word that is one token longer, in one batch."""
        phase = self._phase(prefix)
        tokens = np.flatnonzero(self.grammar.moves[phase] >= 0)
        given, states = runs.step(self.model, tokens, runs.rows(self._state(prefix), np.zeros(len(tokens), dtype=np.int64)))
        for row, token in enumerate(tokens.tolist()):
            asked = self.grammar.asked[self.grammar.moves[phase, token]]
            self.known[*prefix, token] = int(given[row]) if asked else self.model.n_classes
            self._store((*prefix, token), runs.rows(states, np.array([row])))

    def _phase(self, word: Word) -> int:
        return int(self.grammar.walk(np.array([word]))[0, -1]) if word else self.grammar.start

    def _state(self, word: Word) -> list[Any]:
        if word not in self.states:
            states = self._state(word[:-1])
            self._store(word, runs.step(self.model, np.array(word[-1:]), states)[1])
        self.states.move_to_end(word)
        return self.states[word]

    def _store(self, word: Word, states: list[Any]) -> None:
        self.states[word] = states
        while len(self.states) > self.stored:
            oldest = next(key for key in self.states if key)
            del self.states[oldest]


def _automaton(machine: Any, letters: list[int]) -> Automaton:
    """AALpy's Moore machine as one of ours, symbol ``i`` for the ``i``-th letter."""
    ids = {state: i for i, state in enumerate(machine.states)}
    table = [[ids[state.transitions[letter]] for letter in letters] for state in machine.states]
    outputs = [state.output for state in machine.states]
    return Automaton(np.array(table), np.array(outputs), ids[machine.initial_state])
