"""Membership in a regular language, with as many members as others: uniform words of each label, or pairs one letter apart.

Source of the sampling: MLRegTest (arXiv 2304.07687). Its automata are read from files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.automata.counting import WordCounts
from statetrack.automata.regex import from_regex
from statetrack.errors import InvalidInputError
from statetrack.tasks.acceptor_files import read_acceptor, read_text
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import one_of, row_lengths
from statetrack.tasks.layout import IntArray, Layout, batch_of

Words: TypeAlias = Literal["balanced", "uniform", "neighbours"]
WORDS: tuple[str, ...] = get_args(Words)
Label: TypeAlias = Literal["last", "every"]
LABELS: tuple[str, ...] = get_args(Label)
_TRIES = 50


class Membership(Task):
    """Does a word belong to a language?

    Args:
        acceptor: emits 1 after a word of the language and 0 after others.
        words: ``"balanced"``: a fair coin decides the label, then the word is uniform among those of its length with that label
            (the other label, where there are none); ``"uniform"``: any word; ``"neighbours"``: uniform members, half of them with
            one letter changed so that they fall out (where no change does it, a uniform word that is out).
        label: ``"last"`` asks about the word, ``"every"`` about each of its prefixes.
    """

    def __init__(self, acceptor: Automaton, *, words: Words, label: Label) -> None:
        self.words, self.label = one_of("words", words, WORDS), one_of("label", label, LABELS)
        self.acceptor = acceptor
        n_symbols = acceptor.n_symbols
        self.vocab_size, self.n_classes, self.padding, self.chance = n_symbols + 1, 2, n_symbols, 0.5
        layout = Layout(tuple(range(n_symbols)), self.vocab_size, 2, first_class=0, padding=self.padding)
        self.automaton = layout.automaton(acceptor.transitions, acceptor.outputs, acceptor.start)
        self._inside = WordCounts(acceptor, acceptor.outputs == 1)
        self._outside = WordCounts(acceptor, acceptor.outputs != 1)

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        words = self.draw(lengths, generator)
        places = np.arange(words.shape[1])
        mask = np.full(words.shape, True) if self.label == "every" else places == lengths[:, None] - 1
        return batch_of(words, self.acceptor.output(words), mask, lengths, self.padding)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        """Words ``(B, W)`` in symbols; what lies right of them does not matter."""
        if self.words == "uniform":
            return generator.integers(0, self.acceptor.n_symbols, size=(len(lengths), int(lengths.max())), dtype=np.int64)
        member = generator.integers(0, 2, size=len(lengths)) == 1
        if self.words == "neighbours":
            return self._neighbours(member, lengths, generator)
        return self._with_labels(member, lengths, generator)

    def _with_labels(self, member: np.ndarray, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        unique, which = np.unique(lengths, return_inverse=True)
        some_in = np.array([self._inside.count(each) > 0 for each in unique.tolist()])[which]
        some_out = np.array([self._outside.count(each) > 0 for each in unique.tolist()])[which]
        member = (member & some_in) | ~some_out
        words = np.zeros((len(lengths), int(lengths.max())), dtype=np.int64)
        for counts, rows in ((self._inside, np.flatnonzero(member)), (self._outside, np.flatnonzero(~member))):
            if rows.size:
                drawn = counts.sample(lengths[rows], generator)
                words[rows, : drawn.shape[1]] = drawn
        return words

    def _neighbours(self, member: np.ndarray, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        words = self._with_labels(np.ones_like(member), lengths, generator)
        left = np.flatnonzero(~member)
        for _ in range(_TRIES):
            if not left.size:
                return words
            words[left], changed = self._changed(words[left], lengths[left], generator)
            left = left[~changed]
            if left.size:
                drawn = self._with_labels(np.ones(left.size, dtype=bool), lengths[left], generator)
                words[left] = np.pad(drawn, ((0, 0), (0, words.shape[1] - drawn.shape[1])))
        if left.size:
            drawn = self._with_labels(np.zeros(left.size, dtype=bool), lengths[left], generator)
            words[left] = np.pad(drawn, ((0, 0), (0, words.shape[1] - drawn.shape[1])))
        return words

    def _changed(self, words: IntArray, lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, np.ndarray]:
        """Each word with one letter changed, uniform among the changes that put it outside; and where there are any."""
        outside = _after_one_change(self.acceptor, words, lengths) != 1
        n_rows, width, n_symbols = outside.shape
        outside &= (np.arange(width) < lengths[:, None])[:, :, None]
        flat = outside.reshape(n_rows, -1)
        picked = np.where(flat, generator.random(flat.shape), -1.0).argmax(axis=1)
        changed = flat.any(axis=1)
        out, rows = words.copy(), np.flatnonzero(changed)
        out[rows, picked[rows] // n_symbols] = picked[rows] % n_symbols
        return out, changed


def _after_one_change(acceptor: Automaton, words: IntArray, lengths: IntArray) -> IntArray:
    """``(B, W, S)`` the output after the word with the letter at a place replaced by a symbol."""
    states = acceptor.run(words)
    before = np.concatenate((np.full((len(words), 1), acceptor.start), states[:, :-1]), axis=1)
    # From the back: what each state would lead to over the rest of the word.
    n_rows, width = words.shape
    result = np.empty((n_rows, width, acceptor.n_symbols), dtype=np.int64)
    ahead = np.broadcast_to(acceptor.outputs, (n_rows, acceptor.n_states))
    rows = np.arange(n_rows)[:, None]
    for t in reversed(range(width)):
        inside = (t < lengths)[:, None]
        result[:, t] = ahead[rows, acceptor.transitions[before[:, t]]]
        ahead = np.where(inside, ahead[rows, acceptor.transitions[:, words[:, t]].T], ahead)
    return result


@register("regular-language")
class RegularLanguage(Membership):
    """Does a word belong to the language of a regular expression or of an acceptor from a file?

    A file holds one acceptor, or several by name (see ``read_acceptor``), such as those of MLRegTest.

    Args:
        regex: the language; without a file and with None, words over four letters that do not contain ``aa``.
        letters: the alphabet of the regular expression, one character a symbol.
        file: path of a file of acceptors, or the text of one, in place of the regular expression.
        language: which of them, in a file with names.
        words: ``"balanced"``, ``"uniform"`` or ``"neighbours"`` (members, and words one letter away from one).
        label: ``"last"`` asks about the word, ``"every"`` about each of its prefixes.

    Raises:
        InvalidInputError: two languages, or a file that holds none.
        UnknownNameError: no language of that name in the file.

    >>> task = RegularLanguage(regex="(ab)*", letters="ab")
    >>> batch = task.sample(4, 6, np.random.default_rng(0))
    >>> batch.targets[:, -1].tolist()
    [1, 1, 1, 0]
    """

    summary = "does a word belong to a regular language? as many that do as not"
    source = "arXiv 2304.07687"

    def __init__(
        self,
        *,
        regex: str | None = None,
        letters: str = "abcd",
        file: str | None = None,
        language: str | None = None,
        words: Words = "balanced",
        label: Label = "last",
    ) -> None:
        if regex is not None and file is not None:
            raise InvalidInputError("The task takes one language, but got regex and file; leave out one.")
        if language is not None and file is None:
            raise InvalidInputError(f"language {language!r} names an acceptor of a file, but no file is given.")
        if file is not None:
            acceptor = read_acceptor(file, language)
        else:
            acceptor = _without_aa() if regex is None else from_regex(regex, letters)
        super().__init__(acceptor, words=words, label=label)

    @classmethod
    def self_contained(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        file = options.get("file")
        if not isinstance(file, str):
            return dict(options)
        return {**options, "file": read_text(file, options.get("language")).rstrip("\n") + "\n"}


def _without_aa() -> Automaton:
    transitions = [[1, 0, 0, 0], [2, 0, 0, 0], [2, 2, 2, 2]]
    return Automaton(np.array(transitions), np.array([1, 1, 0]), symbols=("a", "b", "c", "d"))
