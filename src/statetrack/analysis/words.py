"""Random words of a grammar, and words led on to the next question."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from statetrack.analysis.language import Grammar

IntArray = npt.NDArray[np.int64]


def random_words(grammar: Grammar, n: int, length: int, generator: np.random.Generator) -> IntArray:
    """Words ``(n, length)`` of uniform moves that can be continued for ever, as far as there are any, and then to a question.

    Words may be longer than ``length`` by what leads to the question; what follows the end of a word is not part of it (see
    ``Grammar.walk``).
    """
    endless = _endless(grammar)
    words = np.zeros((n, length), dtype=np.int64)
    state = np.full(n, grammar.start)
    for t in range(length):
        allowed = grammar.moves[state] >= 0
        lasting = allowed & endless[grammar.moves[state]]
        chosen = np.where(lasting.any(axis=1, keepdims=True), lasting, allowed)
        words[:, t] = (generator.random(chosen.shape) * chosen).argmax(axis=1)
        state = np.where(chosen.any(axis=1), grammar.moves[state, words[:, t]], -1)
    return asked(grammar, words)


def asked(grammar: Grammar, words: IntArray) -> IntArray:
    """Words ``(n, L)`` led on to a state that asks, by the shortest way."""
    way = np.full(len(grammar.moves) + 1, -1)  # the next token of that way; -1 where the question is there or out of reach
    distance = np.append(np.where(grammar.asked, 0, len(way)), len(way))
    for step in range(1, len(way)):
        near = np.append(distance[grammar.moves] == step - 1, np.zeros_like(grammar.moves[:1], dtype=bool), axis=0)
        reached = near.any(axis=1) & (distance == len(way))
        way[reached], distance[reached] = near[reached].argmax(axis=1), step
    while True:
        state = grammar.walk(words)[:, -1]
        if not (way[state] >= 0).any():
            return words
        words = np.concatenate([words, np.maximum(way[state], 0)[:, None]], axis=1)


def _endless(grammar: Grammar) -> npt.NDArray[np.bool_]:
    """Whether words of any length go on from each state; the last entry is for a move that is not there."""
    lasting = np.append(np.ones(len(grammar.moves), dtype=bool), False)
    while True:
        onward = np.append(lasting[grammar.moves].any(axis=1), False)
        if (onward == lasting).all():
            return lasting
        lasting = onward
