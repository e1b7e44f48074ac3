"""Binary addition, multiplication and square roots: context-sensitive.

Source: Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098).
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import IntArray
from statetrack.tasks.transduction import Answers, Transduction

OPERATOR = END = 2
"""Symbol between the numbers of a word, and at the end of an answer."""


class _TwoNumbers(Transduction):
    """Two numbers, lowest digit first, with the operator in between; the answer is lowest digit first and ends with ``END``.

    The first number has a uniform number of digits, and each number is uniform among the positive ones with at most so many. A
    word of one or two symbols is a single number below ``2^n - 1``.
    """

    extra: int
    """Number of steps beyond the length of the word."""

    def __init__(self) -> None:
        super().__init__(3, 3, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        width = int(lengths.max())
        words = np.zeros((len(lengths), width), dtype=np.int64)
        answers = np.full((len(lengths), width + self.extra), END, dtype=np.int64)
        scored = np.empty_like(lengths)
        for row, n in enumerate(lengths.tolist()):
            if n <= 2:
                word = digits(int(generator.integers(0, 2**n - 1)), n)
                answer = self.alone(word)
            else:
                size = int(generator.integers(1, n - 1))
                one, two = _positive(size, generator), _positive(n - 1 - size, generator)
                word = [*digits(one, size), OPERATOR, *digits(two, n - 1 - size)]
                value = self.result(one, two)
                answer = digits(value, value.bit_length())
            words[row, :n] = word
            answers[row, : len(answer)] = answer
            scored[row] = len(answer) + 1
        return Answers(words, answers, lengths + self.extra, scored)

    @abstractmethod
    def result(self, one: int, two: int) -> int:
        """The number to be told."""

    @abstractmethod
    def alone(self, word: list[int]) -> list[int]:
        """The answer to a word that is a single number."""


@register("binary-addition")
class BinaryAddition(_TwoNumbers):
    """The sum of two binary numbers, lowest digit first, without superfluous zeros. Up to two symbols the answer is the word.

    >>> batch = BinaryAddition().sample(1, 6, np.random.default_rng(0))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[1, 1, 1, 1, 2, 1, 3, 3, 3, 3, 3, 3, 3]], [0, 0, 0, 0, 1, 2])
    """

    summary = "sum of two binary numbers, lowest digit first"
    source = "arXiv 2207.02098"
    extra = 1

    def result(self, one: int, two: int) -> int:
        return one + two

    def alone(self, word: list[int]) -> list[int]:
        return word


@register("binary-multiplication")
class BinaryMultiplication(_TwoNumbers):
    """The product of two binary numbers, lowest digit first, without superfluous zeros. Up to two symbols it is zeros."""

    summary = "product of two binary numbers, lowest digit first"
    source = "arXiv 2207.02098"
    extra = 0

    def result(self, one: int, two: int) -> int:
        return one * two

    def alone(self, word: list[int]) -> list[int]:
        return [0] * (len(word) - 1)


@register("square-root")
class SquareRoot(Transduction):
    """The whole part of the square root of a uniform positive binary number, both highest digit first, with leading zeros."""

    summary = "square root of a binary number, highest digit first"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(2, 2, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        steps = (lengths + 1) // 2
        words = np.zeros((len(lengths), int(lengths.max())), dtype=np.int64)
        answers = np.zeros((len(lengths), int(steps.max())), dtype=np.int64)
        for row, (n, m) in enumerate(zip(lengths.tolist(), steps.tolist(), strict=True)):
            number = _positive(n, generator)
            words[row, :n] = digits(number, n)[::-1]
            answers[row, :m] = digits(math.isqrt(number), m)[::-1]
        return Answers(words, answers, steps, steps)


def digits(number: int, n: int) -> list[int]:
    """The lowest ``n`` binary digits of a number, lowest first.

    >>> digits(6, 4)
    [0, 1, 1, 0]
    """
    return [number >> i & 1 for i in range(n)]


def _positive(n: int, generator: np.random.Generator) -> int:
    """A uniform number in ``1 .. 2^n - 1``, of any size."""
    while True:
        number = int.from_bytes(generator.bytes((n + 7) // 8), "little") & ((1 << n) - 1)
        if number:
            return number
