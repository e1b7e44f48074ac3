"""Modular arithmetic without brackets: sums, differences and products mod 5, products first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import Format, IntArray, Layout
from statetrack.tasks.word_task import WordTask

MODULUS = 5
PLUS, MINUS, TIMES = 5, 6, 7
"""Symbols of the operators; symbols 0 to 4 are the digits."""

_POWERS = np.array((1, 2, 4, 3))
_LOGARITHMS = np.array((1 << 32, 0, 1, 3, 2))  # to base 2 mod 5; zero has one that no sum of the others reaches
_LOGARITHM_OF_MINUS_ONE = 2

_SLICE = Layout(symbols=(5, 6, 7, 8, 9, 1, 2, 3), vocab_size=10, n_classes=10, first_class=5, closing=4, overhead=1)
_LAYOUTS: dict[Format, Layout] = {
    "slice": _SLICE,
    "xlstm": replace(_SLICE, overhead=2),
    # Token 8 is a blank that the published task has but never uses.
    "chomsky": Layout(symbols=tuple(range(8)), vocab_size=10, n_classes=5, first_class=0, closing=9, padding=9),
}


def values_mod_5(words: IntArray, word_lengths: IntArray) -> IntArray:
    """Values ``(B,)`` in 0..4 of bracket-free expressions ``(B, W)``: digits in even places, operators between, products first.

    A word splits into signed products at each plus and minus. Logarithms turn the products into sums, so that all of them
    are taken at once over the flattened batch.
    """
    digits, operators = words[:, ::2], words[:, 1::2]
    inside = 2 * np.arange(digits.shape[1]) < word_lengths[:, None]
    logarithms = np.where(inside, _LOGARITHMS[digits % MODULUS], 0)
    starts = np.ones(digits.shape, dtype=bool)
    starts[:, 1:] = inside[:, 1:] & (operators != TIMES)
    logarithms[:, 1:] += _LOGARITHM_OF_MINUS_ONE * (inside[:, 1:] & (operators == MINUS))
    sums = np.add.reduceat(logarithms.ravel(), np.flatnonzero(starts))
    products = np.where(sums < _LOGARITHMS[0], _POWERS[sums % 4], 0)
    per_row = starts.sum(axis=1)
    return np.add.reduceat(products, np.cumsum(per_row) - per_row) % MODULUS


def _machine() -> tuple[IntArray, IntArray, int]:
    """Transitions, values and start of the 25-state machine.

    State ``(total, factor)`` stands for the value ``total + factor``: a digit multiplies the factor, a plus or minus adds the
    factor to the total and makes it 1 or -1, and so ``*`` has nothing left to do.
    """
    total, factor = (part.ravel() for part in np.divmod(np.arange(MODULUS**2), MODULUS))
    value = (total + factor) % MODULUS
    state = total * MODULUS + factor
    by_digit = total[:, None] * MODULUS + factor[:, None] * np.arange(MODULUS) % MODULUS
    by_operator = np.stack((value * MODULUS + 1, value * MODULUS + MODULUS - 1, state), axis=1)
    return np.concatenate((by_digit, by_operator), axis=1), value, 1


@register("modular-arithmetic")
class ModularArithmetic(WordTask):
    """The value mod 5 of ``d o d o ... d`` with uniform digits 0..4 and uniform operators ``+ - *``, where ``*`` binds tighter.

    An expression has an odd number of symbols, so lengths are rounded: ``slice`` counts the ``=`` and rounds up to even;
    ``xlstm`` counts the ``=`` and the answer slot and rounds down to odd; ``chomsky`` counts the word alone and rounds down to
    odd. (The released ``xlstm`` code draws its lengths after rounding, so over 40..256 it makes length 39 as often as 41;
    uniform lengths that are rounded here make it half as often.)

    Args:
        format: ``"slice"`` (arXiv 2505.17761), ``"xlstm"`` (arXiv 2405.04517) or ``"chomsky"`` (arXiv 2207.02098).
    """

    summary = "value mod 5 of an expression without brackets, products first"
    source = "arXiv 2207.02098, 2405.04517, 2505.17761"

    def __init__(self, *, format: Format = "slice") -> None:
        super().__init__(format, _LAYOUTS, n_values=MODULUS)
        self.automaton = self.layout.automaton(*_machine())

    def word_lengths(self, lengths: IntArray) -> IntArray:
        lengths = super().word_lengths(lengths)
        return lengths | 1 if self.format == "slice" else (lengths - 1) | 1

    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        n_digits = (int(word_lengths.max()) + 1) // 2
        words = np.empty((len(word_lengths), 2 * n_digits - 1), dtype=np.int64)
        words[:, ::2] = generator.integers(0, MODULUS, size=(len(words), n_digits), dtype=np.int64)
        words[:, 1::2] = generator.integers(PLUS, TIMES + 1, size=(len(words), n_digits - 1), dtype=np.int64)
        return words, values_mod_5(words, word_lengths)
