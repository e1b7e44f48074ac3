"""ListOps: the value of nested lists of digits under minimum, maximum, median and sum mod 10.

    [MAX 2 9 [MIN 4 7 ] 0 ]      target at the last token: 9

Source: ListOps (arXiv 1804.06028), in the long form of Long Range Arena (arXiv 2011.04006).
"""

from __future__ import annotations

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, share, whole_number
from statetrack.tasks.layout import batch_of

OPERATORS = ("MIN", "MAX", "MED", "SM")
"""In the order of their tokens, which are 10 to 13; digits are themselves, 14 closes a list."""
CLOSE, _PADDING = 14, 15
_TRIES = 100_000


@register("listops")
class ListOps(Task):
    """The value, a digit, of an expression over lists.

    Above the greatest depth a node is an operator with probability ``operator``, over 2 to ``arguments`` nodes; otherwise, and at
    that depth, a uniform digit. A length ``n`` asks for expressions of more than ``n / 4`` and at most ``n`` tokens, drawn until
    one fits; the published sets lie between 500 and 2000. The median of an even number of digits is the mean of the middle
    two, rounded down. The redundant round brackets of the original text are left out.

    The distribution of values is not uniform: a constant answer does better than ``chance``.

    Args:
        depth: most nested levels, digits included.
        arguments: most members of a list.
        operator: probability of an operator above the greatest depth.

    Raises:
        InvalidInputError: options under which expressions of the length asked for hardly ever come up.

    >>> batch = ListOps().sample(1, 12, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[12, 7, 5, 8, 8, 5, 4, 4, 2, 14]], [5])
    """

    summary = "value of nested lists under min, max, median and sum mod 10"
    source = "arXiv 1804.06028, 2011.04006"

    def __init__(self, *, depth: int = 10, arguments: int = 10, operator: float = 0.25) -> None:
        self.depth, self.arguments = whole_number("depth", depth, low=1), whole_number("arguments", arguments, low=2)
        self.operator = share("operator", operator)
        self.vocab_size, self.n_classes, self.padding, self.chance = _PADDING + 1, 10, _PADDING, 1 / 10

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        asked = row_lengths(self, batch_size, length)
        draws = _Draws(self, generator)
        rows = [draws.expression(int(most)) for most in asked]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        inputs = np.full((batch_size, int(lengths.max())), self.padding, dtype=np.int64)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        for row, tokens in enumerate(rows):
            inputs[row, : len(tokens)] = tokens
            targets[row, len(tokens) - 1], mask[row, len(tokens) - 1] = value_of(tokens), True
        return batch_of(inputs, targets, mask, lengths, self.padding)


class _Draws:
    """Expressions from one generator, whose numbers are drawn many at a time."""

    def __init__(self, task: ListOps, generator: np.random.Generator) -> None:
        self.task, self.generator = task, generator
        self._numbers: list[float] = []

    def number(self) -> float:
        if not self._numbers:
            self._numbers = self.generator.random(4096).tolist()
        return self._numbers.pop()

    def expression(self, most: int) -> list[int]:
        """Tokens of an expression of more than ``most / 4`` and at most ``most`` of them."""
        for _ in range(_TRIES):
            tokens: list[int] = []
            if self._node(tokens, 1, most) and 4 * len(tokens) > most:
                return tokens
        raise InvalidInputError(
            f"None of {_TRIES} random expressions has more than {most / 4:g} and at most {most} tokens; change depth "
            f"({self.task.depth}), arguments ({self.task.arguments}) or operator ({self.task.operator})."
        )

    def _node(self, tokens: list[int], depth: int, most: int) -> bool:
        """Append one node; false as soon as there are too many tokens."""
        task = self.task
        if depth >= task.depth or self.number() >= task.operator:
            tokens.append(int(10 * self.number()))
            return len(tokens) <= most
        tokens.append(10 + int(len(OPERATORS) * self.number()))
        for _ in range(2 + int((task.arguments - 1) * self.number())):
            if not self._node(tokens, depth + 1, most):
                return False
        tokens.append(CLOSE)
        return len(tokens) <= most


def value_of(tokens: list[int]) -> int:
    """The value of an expression.

    >>> value_of([11, 2, 9, 10, 4, 7, 14, 0, 14])
    9
    """
    stack: list[list[int]] = [[]]
    operators: list[int] = []
    for token in tokens:
        if token < 10:
            stack[-1].append(token)
        elif token < CLOSE:
            operators.append(token - 10)
            stack.append([])
        else:
            members = sorted(stack.pop())
            middle = (members[(len(members) - 1) // 2] + members[len(members) // 2]) // 2
            stack[-1].append((members[0], members[-1], middle, sum(members) % 10)[operators.pop()])
    return stack[0][0]
