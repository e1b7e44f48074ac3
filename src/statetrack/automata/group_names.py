"""Groups by name: cyclic, symmetric, alternating, dihedral, Q8, F20 and their direct products."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from statetrack.automata.groups import MAX_ORDER, Group, generated_group
from statetrack.errors import InvalidInputError, UnknownNameError

_GRAMMAR = ("A<n>", "C<n>", "D<n> (order 2n)", "F20", "Q8", "S<n>", "Z<n> (the same as C<n>)", "products such as A4xC5")


def group(name: str) -> Group:
    """The permutation group called ``name``; the same object for every call.

    - ``C<n>``, also ``Z<n>``: cyclic; element ``j`` maps ``x`` to ``x + j`` mod ``n``. Generator: ``x + 1``.
    - ``S<n>``: all permutations of ``n`` points. Generators: ``x + 1`` mod ``n``, then the swap of 0 and 1.
    - ``A<n>``: the even permutations. Generators: a long cycle, then the cycle 0 -> 1 -> 2; for ``A5`` ``x + 1`` mod 5, then the
      double swap (0 1)(2 3).
    - ``D<n>``, ``n >= 3``: the ``2n`` symmetries of a polygon with ``n`` corners. Generators: ``x + 1``, then ``-x`` mod ``n``.
    - ``Q8``: the quaternions 1, -1, i, -i, j, -j, k, -k (ids in this order) acting on themselves. Generators: i, j.
    - ``F20``: the maps ``a x + b`` mod 5. Generators: ``x + 1``, ``2 x``.
    - ``A4xC5``, ``C2xC2xC2``: direct products. The factors act on disjoint points and the last factor's id runs fastest.

    Raises:
        UnknownNameError: no such name; the message gives the nearest one or the grammar.
        InvalidInputError: more than 10,000 elements, or ``D1`` or ``D2``.

    >>> group("S3").elements.tolist()
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    >>> group("A4xZ5")
    Group('A4xC5', order=60, degree=9)
    """
    factors = _parse(name)
    if factors is None:
        rewritten = "x".join(part.upper() for part in re.split(r"[\s_*xX]+", name) if part)
        raise UnknownNameError("group", name, _GRAMMAR if _parse(rewritten) is None else (rewritten,))
    return _build(factors)


class _Family(NamedTuple):
    order: Callable[[int], int]
    generators: Callable[[int], list[list[int]]]


def _parse(name: str) -> tuple[tuple[str, int], ...] | None:
    """The factors of a product as pairs (family, n), or None if the name does not follow the grammar."""
    factors = []
    for part in name.split("x"):
        if part in ("Q8", "F20"):
            factors.append((part[0], int(part[1:])))
        elif match := re.fullmatch(r"([CZSAD])([1-9][0-9]*)", part):
            factors.append((match[1].replace("Z", "C"), int(match[2])))
        else:
            return None
    return tuple(factors)


@lru_cache(maxsize=64)
def _build(factors: tuple[tuple[str, int], ...]) -> Group:
    name = "x".join(f"{family}{n}" for family, n in factors)
    for family, n in factors:
        if family == "D" and n < 3:
            raise InvalidInputError(f"D<n> needs n >= 3; instead of D{n} use {'C2' if n == 1 else 'C2xC2'}.")
    order = math.prod(_FAMILIES[family].order(n) for family, n in factors)
    if order > MAX_ORDER:
        raise InvalidInputError(f"{name} has more than {MAX_ORDER:,} elements; use a smaller group.")
    if len(factors) > 1:
        return _direct_product(_build(factors[:-1]), _build(factors[-1:]), name)
    ((family, n),) = factors
    if family == "C":  # the only family of a large degree: its table is faster to write down than to generate
        return Group(name, np.add.outer(np.arange(n), np.arange(n)) % n, (1 % n,))
    return generated_group(name, _FAMILIES[family].generators(n))


def _direct_product(left: Group, right: Group, name: str) -> Group:
    elements = np.concatenate(
        [np.repeat(left.elements, right.order, axis=0), np.tile(right.elements + left.degree, (left.order, 1))], axis=1
    )
    return Group(name, elements, tuple(g * right.order for g in left.generators) + right.generators)


def _shift(n: int, step: int = 1) -> list[int]:
    return [(x + step) % n for x in range(n)]


def _cycle(n: int, *points: int) -> list[int]:
    images = list(range(n))
    for x, y in zip(points, points[1:] + points[:1], strict=True):
        images[x] = y
    return images


def _factorial(n: int) -> int:
    return math.factorial(min(n, 20))  # any larger group is refused anyway


def _alternating_generators(n: int) -> list[list[int]]:
    if n <= 3:
        return [_shift(n, step=n // 3)]
    if n == 5:
        return [_shift(5), [1, 0, 3, 2, 4]]
    return [_shift(n) if n % 2 else _cycle(n, *range(1, n)), _cycle(n, 0, 1, 2)]


_FAMILIES = {
    "C": _Family(order=lambda n: n, generators=lambda n: [_shift(n)]),
    "S": _Family(order=_factorial, generators=lambda n: [_shift(n), _cycle(n, 0, 1)] if n > 2 else [_shift(n)]),
    "A": _Family(order=lambda n: max(1, _factorial(n) // 2), generators=_alternating_generators),
    "D": _Family(order=lambda n: 2 * n, generators=lambda n: [_shift(n), [-x % n for x in range(n)]]),
    "F": _Family(order=lambda n: n, generators=lambda n: [_shift(5), [2 * x % 5 for x in range(5)]]),
    # i and j multiplying 1, -1, i, -i, j, -j, k, -k from the left
    "Q": _Family(order=lambda n: n, generators=lambda n: [[2, 3, 1, 0, 6, 7, 5, 4], [4, 5, 7, 6, 1, 0, 2, 3]]),
}
