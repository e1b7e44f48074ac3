"""Modular arithmetic with brackets: a context-free task, so no finite automaton solves it at every length."""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.checks import truth_value
from statetrack.tasks.layout import Format, IntArray, Layout
from statetrack.tasks.modular_arithmetic import MINUS, MODULUS, PLUS
from statetrack.tasks.word_task import WordTask

OPENING, CLOSING = 8, 9
"""Symbols of the brackets; digits and operators are those of ``modular_arithmetic``."""

_LAYOUTS: dict[Format, Layout] = {
    "slice": Layout(symbols=tuple(range(1, 11)), vocab_size=12, n_classes=12, first_class=1, closing=11, overhead=1),
    "xlstm": Layout(symbols=tuple(range(10)), vocab_size=12, n_classes=12, first_class=0, closing=10, padding=11, overhead=3),
    # Token 10 is a blank that the published task has but never uses.
    "chomsky": Layout(symbols=tuple(range(10)), vocab_size=12, n_classes=5, first_class=0, closing=11, padding=11),
}


def draw_expressions(word_lengths: IntArray, n_operators: int, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Random bracketed expressions with the first ``n_operators`` of ``+ - *``, and their values mod 5.

    Up to 4 symbols an expression is ``d``, ``-d``, ``(d)`` or ``(-d)``; a longer one is ``(L o R)`` whose left part has a
    uniform length. All expressions of one depth, in all rows, are written together; then values come from the deepest level up.

    Returns:
        ``(B, W)`` symbols, 0 right of a word, and ``(B,)`` values in 0..4.
    """
    batch_size, width = len(word_lengths), int(word_lengths.max())
    text = np.zeros(batch_size * width, dtype=np.int64)
    begins, sizes = np.arange(batch_size, dtype=np.int64) * width, word_lengths
    levels = []
    while sizes.size:
        compound = sizes > 4
        leaves = _write_leaves(text, begins[~compound], sizes[~compound], generator)
        begins, sizes = begins[compound], sizes[compound]
        left = generator.integers(1, sizes - 3, dtype=np.int64)
        operator = PLUS + generator.integers(0, n_operators, size=sizes.size, dtype=np.int64)
        text[begins], text[begins + 1 + left], text[begins + sizes - 1] = OPENING, operator, CLOSING
        levels.append((compound, leaves, operator))
        begins, sizes = np.concatenate((begins + 1, begins + 2 + left)), np.concatenate((left, sizes - 3 - left))
    values = np.empty(0, dtype=np.int64)
    for compound, leaves, operator in reversed(levels):
        lefts, rights = values.reshape(2, -1)
        results = np.choose(operator - PLUS, (lefts + rights, lefts - rights, lefts * rights))
        values = np.empty(compound.size, dtype=np.int64)
        values[~compound], values[compound] = leaves, results % MODULUS
    return text.reshape(batch_size, width), values


def _write_leaves(text: IntArray, begins: IntArray, sizes: IntArray, generator: np.random.Generator) -> IntArray:
    """Writes ``d``, ``-d``, ``(d)`` or ``(-d)`` by size and returns the values."""
    digits = generator.integers(0, MODULUS, size=sizes.size, dtype=np.int64)
    bracketed, negative = sizes > 2, sizes % 2 == 0
    text[begins[bracketed]], text[(begins + sizes - 1)[bracketed]] = OPENING, CLOSING
    text[(begins + bracketed)[negative]] = MINUS
    text[begins + bracketed + negative] = digits
    return np.where(negative, -digits, digits) % MODULUS


@register("modular-arithmetic-brackets")
class ModularArithmeticBrackets(WordTask):
    """The value mod 5 of a random expression with brackets and unary minus.

    Lengths: ``slice`` counts the ``=``; ``xlstm`` counts the ``=``, the answer and one token of padding after it, and makes
    length 5 of 3 and 4; ``chomsky`` counts the word alone.

    Products favour zero, so with them a constant answer of 0 does better than ``chance`` (0.29 at length 40, 0.31 at 256).

    Args:
        format: ``"slice"`` (arXiv 2505.17761), ``"xlstm"`` (arXiv 2411.12537) or ``"chomsky"`` (arXiv 2207.02098).
        multiplication: whether ``*`` is among the operators. The released ``xlstm`` code leaves it out unless told otherwise.
    """

    summary = "value mod 5 of an expression with brackets"
    source = "arXiv 2207.02098, 2411.12537, 2505.17761"

    def __init__(self, *, format: Format = "slice", multiplication: bool = True) -> None:
        super().__init__(format, _LAYOUTS, n_values=MODULUS)
        self.multiplication = truth_value("multiplication", multiplication)
        if format == "xlstm":
            self.min_length = 3

    def word_lengths(self, lengths: IntArray) -> IntArray:
        return np.maximum(super().word_lengths(lengths), 2 if self.format == "xlstm" else 1)

    def draw(self, word_lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
        return draw_expressions(word_lengths, 3 if self.multiplication else 2, generator)
