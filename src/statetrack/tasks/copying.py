"""Copying: a string of letters, to be written again; or one question about it.

    copy:    $ s1 ... s_n | s1 ... s_n      target from | on: s1 ... s_n and the full stop
    lookup:  $ s1 ... s_n | g1 ... g_k      target at g_k: the letter after the first g1 ... g_k in the string

Source: Repeat After Me: Transformers are Better than State Space Models at Copying (arXiv 2402.01032).
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import one_of, row_lengths, whole_number
from statetrack.tasks.layout import IntArray, batch_of

Question: TypeAlias = Literal["copy", "lookup"]
QUESTIONS: tuple[str, ...] = get_args(Question)
LETTERS = 26
BEGIN, BAR, STOP = LETTERS, LETTERS + 1, LETTERS + 2


@register("copying")
class Copying(Task):
    """A uniform string of letters again, or the letter after a part of it.

    The published training sets pack several strings of uniform lengths into a row; here a row is one string. A length counts its
    letters. A state of b bits cannot copy more than ``b / capacity_bits(1)`` letters.

    Args:
        question: ``"copy"`` asks for the whole string and the full stop, ``"lookup"`` for the letter after a part.
        part: number of letters of that part; also of the repeats.
        repeats: overwrite that many places of the string with one and the same part, which makes copying by looking up parts
            ambiguous (see ``ambiguous_share``).

    Raises:
        InvalidInputError: a number out of range.

    >>> batch = Copying().sample(1, 3, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[26, 22, 16, 13, 27, 22, 16, 13]], [22, 16, 13, 28])
    """

    summary = "a string of letters again, or the letter after a part of it"
    source = "arXiv 2402.01032"

    def __init__(self, *, question: Question = "copy", part: int = 3, repeats: int = 0) -> None:
        self.question = one_of("question", question, QUESTIONS)
        self.part, self.repeats = whole_number("part", part, low=1), whole_number("repeats", repeats, low=0)
        if self.repeats == 1:
            raise InvalidInputError("repeats must be 0 or at least 2: a part that stands once is not repeated.")
        self.vocab_size, self.n_classes, self.padding = LETTERS + 3, LETTERS + 3, STOP
        self.chance = 1 / LETTERS
        self.min_length = max(1, self.part + 1 if question == "lookup" else 1, self.repeats * self.part)

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        strings = self._strings(lengths, generator)
        width, rows = strings.shape[1], np.arange(batch_size)[:, None]
        n_answers = width if self.question == "copy" else self.part
        inputs = np.full((batch_size, width + 2 + n_answers), STOP, dtype=np.int64)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        inputs[:, 0], inputs[:, 1 : width + 1] = BEGIN, strings
        inputs[rows[:, 0], lengths + 1] = BAR
        if self.question == "copy":
            inside = np.arange(width) < lengths[:, None]
            row, letter = np.nonzero(inside)
            inputs[row, lengths[row] + 2 + letter] = strings[row, letter]
            targets[row, lengths[row] + 1 + letter], mask[row, lengths[row] + 1 + letter] = strings[row, letter], True
            last = 2 * lengths + 1
            targets[rows[:, 0], last], mask[rows[:, 0], last] = STOP, True
            return batch_of(inputs, targets, mask, last + 1, self.padding)
        begin = generator.integers(0, lengths - self.part)[:, None]
        part = strings[rows, begin + np.arange(self.part)]
        inputs[rows, lengths[:, None] + 2 + np.arange(self.part)] = part
        last = lengths + 1 + self.part
        targets[rows[:, 0], last], mask[rows[:, 0], last] = _after_first(strings, part), True
        return batch_of(inputs, targets, mask, last + 1, self.padding)

    def _strings(self, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        """Uniform letters; the repeats stand at uniform places that do not overlap."""
        shape = len(lengths), int(lengths.max())
        strings = generator.integers(0, LETTERS, size=shape, dtype=np.int64)
        if not self.repeats:
            return strings
        part = generator.integers(0, LETTERS, size=(shape[0], 1, self.part), dtype=np.int64)
        # Placing parts without overlap is choosing places among the letters that are left plus one for each part.
        free = lengths - self.repeats * (self.part - 1)
        slots = np.arange(int(free.max()))
        ranks = np.where(slots < free[:, None], generator.random((shape[0], slots.size)), 2.0)
        chosen = np.sort(np.argpartition(ranks, self.repeats - 1, axis=1)[:, : self.repeats], axis=1)
        begins = chosen + np.arange(self.repeats) * (self.part - 1)
        rows = np.arange(shape[0])[:, None, None]
        strings[rows, begins[:, :, None] + np.arange(self.part)] = part
        return strings


def _after_first(strings: IntArray, part: IntArray) -> IntArray:
    """``(B,)`` the letter after the first place at which a part stands in its string."""
    n = part.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(strings, n, axis=1)[:, :-1]
    first = (windows == part[:, None]).all(axis=2).argmax(axis=1)
    return strings[np.arange(len(strings)), first + n]


def capacity_bits(n: int) -> float:
    """Bits that a state must hold to copy any string of ``n`` letters.

    >>> round(capacity_bits(10), 1)
    47.0
    """
    return n * math.log2(LETTERS)


def ambiguous_share(strings: IntArray, part: int) -> float:
    """Share of letters that the ``part`` letters before them do not determine, because these stand elsewhere before another.

    A copier that finds its place by the last ``part`` letters alone cannot be sure of these.

    Args:
        strings: ``(B, n)`` letters.
        part: number of letters that are looked up.

    >>> ambiguous_share(np.array([[0, 1, 0, 2]]), 1)
    0.6666666666666666
    """
    ambiguous = 0
    for string in strings.tolist():
        after: dict[tuple[int, ...], set[int]] = {}
        for i in range(len(string) - part):
            after.setdefault(tuple(string[i : i + part]), set()).add(string[i + part])
        ambiguous += sum(len(after[tuple(string[i : i + part])]) > 1 for i in range(len(string) - part))
    return ambiguous / (strings.shape[0] * (strings.shape[1] - part))
