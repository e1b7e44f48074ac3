"""Which heads carry the answer: the fewest whose places tell it.

Training leaves heads that the answer does not depend on wandering through their places. Followed together with the others they
would multiply states for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.analysis.extraction import skeleton
from statetrack.analysis.language import Grammar
from statetrack.analysis.words import random_words
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]
Heads = list[tuple[int, int]]

_SAMPLES_PER_KEY = 8
"""A set of heads that takes more different places than a share of the samples would tell any answer."""


class Trace(NamedTuple):
    """Places along many words, one row for each token that was read, in the order of time.

    Attributes:
        situation: ``(T,)`` the phase of the word and the token read, as one number.
        places: ``(T, n_heads)`` the place of each head after it.
        before: ``(T, n_heads)`` that before it.
        answers: ``(T,)`` the model's class; -1 where nothing is asked.
    """

    situation: IntArray
    places: IntArray
    before: IntArray
    answers: IntArray


def trace(model: Tagger, grammar: Grammar, n: int, length: int, generator: np.random.Generator) -> Trace:
    """Places of all heads along ``n`` random words of ``length`` tokens."""
    heads = skeleton.all_heads(model)
    words = random_words(grammar, n, length, generator)
    phases = grammar.walk(words)
    position = skeleton.start(model).rows(np.zeros(n, dtype=np.int64))
    ids: list[dict[bytes, int]] = [{} for _ in heads]

    def numbered() -> IntArray:
        columns = [[known.setdefault(p, len(known)) for p in position.places([h])] for known, h in zip(ids, heads, strict=True)]
        return np.array(columns, dtype=np.int64).T

    rows: list[tuple[IntArray, ...]] = []
    places = numbered()
    for t in range(words.shape[1]):
        classes, position = skeleton.advance(model, position, words[:, t])
        before, places = places, numbered()
        inside = np.flatnonzero(phases[:, t] >= 0)
        phase = phases[inside, t]
        answers = np.where(grammar.asked[phase], classes[inside], -1)
        rows.append((phase * grammar.moves.shape[1] + words[inside, t], places[inside], before[inside], answers))
    return Trace(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def carrying_heads(model: Tagger, found: Trace) -> tuple[Heads, int]:
    """The heads that carry the answer, and how many of the samples even they get wrong.

    Heads are added one by one, each time the one that explains most, and then dropped again where they turn out not to be needed.
    """
    heads = skeleton.all_heads(model)
    chosen: list[int] = []
    best = _unexplained(found, chosen)
    while best:
        tried = [(_unexplained(found, [*chosen, i]), i) for i in range(len(heads)) if i not in chosen]
        least, added = min(tried, default=(best, -1))
        if least >= best:
            break
        best, chosen = least, [*chosen, added]
    for i in list(chosen):
        rest = [j for j in chosen if j != i]
        if _unexplained(found, rest) <= best:
            chosen = rest
    return [heads[i] for i in sorted(chosen)], best


def _unexplained(found: Trace, chosen: list[int]) -> int:
    """Samples whose answer or next places are not the commonest ones for what these heads know."""
    asked = found.answers >= 0
    told = np.column_stack([found.situation, found.places[:, chosen]])
    missed = _minority(told[asked], found.answers[asked])
    if chosen:
        known = np.column_stack([found.situation, found.before[:, chosen]])
        missed += _minority(known, _numbers(found.places[:, chosen]))
    return missed


def _minority(keys: IntArray, values: IntArray) -> int:
    if not len(keys):
        return 0
    key = _numbers(keys)
    if (key.max() + 1) * _SAMPLES_PER_KEY > len(key) + 64:
        return len(key)
    pairs, counts = np.unique(np.column_stack([key, values]), axis=0, return_counts=True)
    most = np.zeros(key.max() + 1, dtype=np.int64)
    np.maximum.at(most, pairs[:, 0], counts)
    return int(len(key) - most.sum())


def _numbers(rows: IntArray) -> IntArray:
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()
