"""Looking for a word that a model gets wrong, by running it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from statetrack.analysis import runs
from statetrack.analysis.language import Specification
from statetrack.analysis.words import asked, random_words
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]

_CHUNK, _LONGEST_PERIOD, _MOST_TOKENS = 1024, 3, 300_000
_LONGEST_AT_ONCE = 256
"""Tokens of a word for models whose memory grows with it."""


@dataclass(frozen=True)
class Counterexample:
    """A word whose answer is wrong; all questions within it are answered rightly.

    Attributes:
        word: token ids.
        expected: the right class.
        given: the class with the largest score.
        shortest: whether every shorter word is known to be answered rightly.
    """

    word: tuple[int, ...]
    expected: int
    given: int
    shortest: bool


@dataclass(frozen=True)
class Effort:
    """How hard to look for a wrong answer.

    Attributes:
        states: most states of model and specification that are visited breadth-first.
        words: number of random words of each length.
        lengths: their lengths.
        cycles: most short words that are repeated.
    """

    states: int = 20_000
    words: int = 32
    lengths: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    cycles: int = 64


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Search:
    """What a search has found.

    Attributes:
        counterexample: the shortest wrong word seen.
        exhausted: whether all states that the model reaches here were visited, so that it is right on every word as run here.
        visited: number of states visited breadth-first.
    """

    counterexample: Counterexample | None
    exhausted: bool
    visited: int


def search(model: Tagger, specification: Specification, effort: Effort = DEFAULT_EFFORT, seed: int = 0) -> Search:
    """Breadth-first through all states as far as effort goes, then long random and periodic words."""
    found = _breadth_first(model, specification, effort.states)
    if not runs.streams(model):
        effort = replace(effort, lengths=tuple(length for length in effort.lengths if length <= _LONGEST_AT_ONCE))
    if found.counterexample is None and not found.exhausted:
        for words in _long_words(specification, effort, np.random.default_rng(seed)):
            wrong = _first_wrong(model, specification, words)
            if wrong is not None:
                return replace(found, counterexample=_shortened(model, specification, wrong))
    return found


def answer(model: Tagger, specification: Specification, word: tuple[int, ...]) -> Counterexample | None:
    """What the model, run over a word from its start, gets wrong at its end, if it does."""
    words = np.array([word], dtype=np.int64)
    expected = int(specification.expected(words)[0, -1])
    given = int(runs.classes(model, words)[0, -1])
    return None if expected < 0 or given == expected else Counterexample(word, expected, given, shortest=False)


def _breadth_first(model: Tagger, specification: Specification, limit: int) -> Search:
    """Visits pairs of states level by level, so that the first wrong word is a shortest one."""
    if not runs.streams(model):
        return Search(None, False, 0)
    level, states = np.array([specification.start]), model.initial_state(1)
    seen = {(specification.start, runs.keys(states)[0])}
    words: list[tuple[int, ...]] = [()]
    while len(level) and len(seen) <= limit:
        source, tokens, after = specification.edges(level)
        fresh, parts, longer = [], [], []
        for first in range(0, len(source), _CHUNK):
            part = slice(first, first + _CHUNK)
            given, following = runs.step(model, tokens[part], runs.rows(states, source[part]))
            expected = specification.answers[after[part]]
            wrong = np.flatnonzero((expected >= 0) & (given != expected))
            if len(wrong):
                row = int(wrong[0])
                word = (*words[source[part][row]], int(tokens[part][row]))
                return Search(Counterexample(word, int(expected[row]), int(given[row]), shortest=True), False, len(seen))
            new = []
            for row, key in enumerate(runs.keys(following)):
                pair = (int(after[part][row]), key)
                if pair not in seen:
                    seen.add(pair)
                    new.append(row)
                    longer.append((*words[source[part][row]], int(tokens[part][row])))
            fresh.append(after[part][new])
            parts.append(runs.rows(following, np.array(new)))
        level, words = np.concatenate(fresh) if fresh else np.zeros(0, dtype=np.int64), longer
        states = runs.joined(parts) if parts else states
    return Search(None, not len(level), len(seen))


def _long_words(specification: Specification, effort: Effort, generator: np.random.Generator) -> Iterator[IntArray]:
    for length in effort.lengths:
        yield random_words(specification, effort.words, length, generator)
        periods = random_words(specification, effort.cycles, _LONGEST_PERIOD, generator)
        for period in range(1, _LONGEST_PERIOD + 1):
            repeated = np.unique(np.tile(periods[:, :period], (1, -(-length // period))), axis=0)
            repeated = repeated[specification.walk(repeated).min(axis=1) >= 0]
            if len(repeated):
                yield asked(specification, repeated)


def _first_wrong(model: Tagger, specification: Specification, words: IntArray) -> tuple[int, ...] | None:
    """The shortest wrong prefix of some words."""
    expected = specification.expected(words)
    row, place = np.nonzero((expected >= 0) & (runs.classes(model, words) != expected))
    if not len(row):
        return None
    first = int(place.argmin())
    return tuple(words[row[first], : place[first] + 1].tolist())


def _shortened(model: Tagger, specification: Specification, word: tuple[int, ...]) -> Counterexample | None:
    """The word without whatever can be left out of it while it stays wrong."""
    size, spent = len(word) // 2, 0
    while size and spent < _MOST_TOKENS:
        shorter = None
        for first in range(0, len(word) - size + 1, size):
            tried = word[:first] + word[first + size :]
            if not tried or specification.walk(np.array([tried]))[0, -1] < 0:
                continue
            spent += len(tried)
            shorter = _first_wrong(model, specification, np.array([tried]))
            if shorter is not None:
                break
        word, size = (word, size // 2) if shorter is None else (shorter, min(size, len(shorter) // 2))
    return answer(model, specification, word)
