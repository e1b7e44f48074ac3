"""Interval arithmetic that encloses what float32 may compute, in float64 with room for its own rounding.

An operation on intervals holds the exact result for all numbers in them and every result that float32 may give. What is assumed
of float32: one rounding of relative size ``UNIT`` per addition, product, division and root, in sums of any order and with or
without fused operations; a relative error of at most ``FUNCTION`` for exp, sigmoid and the like; results below ``TINY`` may
become 0. Each bound is a good deal wider than the 2**-53 that float64 adds to it. What is exact in float32 stays exact here:
adding 0, multiplying by 0, 1 or -1. And float32 keeps order where it matters: a product with a factor in [0, 1] lies between 0
and the other factor, and exp of a number below 0 is at most 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

Array: TypeAlias = npt.NDArray[np.float64]

UNIT, FUNCTION, TINY = 2.0**-24, 2.0**-20, 2.0**-110
_SLACK = 1.001
"""Covers the terms of second order in the standard bounds, and float64."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Intervals ``[lo, hi]``, elementwise.

    Attributes:
        lo: float64.
        hi: float64 of the same shape.
    """

    lo: Array
    hi: Array

    @classmethod
    def point(cls, x: Any) -> Interval:
        """A tensor or array that is known exactly."""
        if isinstance(x, torch.Tensor):
            x = x.detach().cpu().double().numpy()
        array = np.array(x, dtype=np.float64)
        return cls(array, array)

    @property
    def size(self) -> Array:
        """The largest modulus in each interval."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def shape(self) -> tuple[int, ...]:
        """That of both ends."""
        return self.lo.shape

    def map(self, change: Callable[[Array], Any]) -> Interval:
        """The same rearrangement of both ends."""
        return Interval(np.asarray(change(self.lo)), np.asarray(change(self.hi)))

    def __getitem__(self, index: Any) -> Interval:
        return self.map(lambda end: end[index])

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Interval) -> Interval:
        total = Interval(self.lo + other.lo, self.hi + other.hi)
        exact = self.equals(0) | other.equals(0)
        return total.widened(np.where(exact, 0, _SLACK * UNIT * total.size + TINY))

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        product = Interval(np.minimum.reduce(corners), np.maximum.reduce(corners))
        exact = self._keeps() | other._keeps()
        return product.widened(np.where(exact, 0, _SLACK * UNIT * product.size + TINY))

    def _keeps(self) -> npt.NDArray[np.bool_]:
        """Where multiplying by the interval is exact."""
        return (self.lo == self.hi) & ((self.lo == 0) | (np.abs(self.lo) == 1))

    def shrunk(self, factor: Interval) -> Interval:
        """The product with a factor in [0, 1], which lies between 0 and this interval."""
        product = self * factor
        if (factor.lo < 0).any() or (factor.hi > 1).any():
            return product
        return Interval(np.maximum(product.lo, np.minimum(self.lo, 0)), np.minimum(product.hi, np.maximum(self.hi, 0)))

    def equals(self, value: float) -> npt.NDArray[np.bool_]:
        """Where the interval holds nothing but ``value``."""
        return (self.lo == value) & (self.hi == value)

    def rounded(self, size: Array, n_terms: Array | int) -> Interval:
        """Widened by the rounding of sums of ``n_terms`` products whose moduli add up to ``size``; not at all where that is 0."""
        return self.widened(np.where(size > 0, n_terms * (_SLACK * UNIT * size + TINY), 0))

    def widened(self, by: Any) -> Interval:
        """Both ends moved outward, and not at all where ``by`` is 0."""
        return Interval(self.lo - by, self.hi + by)

    def inside(self, other: Interval) -> npt.NDArray[np.bool_]:
        """Where this interval lies in the other."""
        return (other.lo <= self.lo) & (self.hi <= other.hi)

    def square(self) -> Interval:
        """Exact squares, never below 0."""
        least = np.where((self.lo < 0) & (self.hi > 0), 0, np.minimum(np.abs(self.lo), np.abs(self.hi)))
        return Interval(least**2, self.size**2).widened(_SLACK * UNIT * self.size**2)


def cat(parts: list[Interval], axis: int = -1) -> Interval:
    """Intervals one after another."""
    return Interval(np.concatenate([p.lo for p in parts], axis), np.concatenate([p.hi for p in parts], axis))


def linear(x: Interval, weight: Array, bias: Array | float = 0.0, *, n_terms: int | None = None) -> Interval:
    """``weight x + bias`` along the last axis, for ``weight (out, in)``; ``n_terms`` of a longer sum that it is a part of."""
    up, down = np.maximum(weight, 0).T, np.minimum(weight, 0).T
    exact = Interval(x.lo @ up + x.hi @ down + bias, x.hi @ up + x.lo @ down + bias)
    return exact.rounded(x.size @ (up - down) + np.abs(bias), n_terms or weight.shape[-1] + 2)


def times(left: tuple[Interval, Interval], right: tuple[Interval, Interval]) -> tuple[Interval, Interval]:
    """The product of complex numbers given by real and imaginary part."""
    (a, b), (c, d) = left, right
    return a * c - b * d, a * d + b * c


def increasing(function: Callable[[Array], Array], x: Interval) -> Interval:
    """An increasing function, up to a relative error of ``FUNCTION``."""
    value = Interval(function(x.lo), function(x.hi))
    return value.widened(FUNCTION * value.size + TINY)


def sigmoid(x: Interval) -> Interval:
    """``1 / (1 + exp(-x))``."""
    return increasing(_sigmoid, x)


def log_sigmoid(x: Interval) -> Interval:
    """``log sigmoid(x)``, never above 0."""
    value = increasing(lambda v: -np.logaddexp(0, -v), x)
    return Interval(value.lo, np.minimum(value.hi, 0))


def softplus(x: Interval) -> Interval:
    """``log(1 + exp(x))``."""
    return increasing(lambda v: np.logaddexp(0, v), x)


def exp(x: Interval) -> Interval:
    """``exp(x)``; exactly 1 at 0, and not above 1 below 0."""
    value = increasing(np.exp, x)
    return Interval(
        np.where(x.lo >= 0, np.maximum(value.lo, 1), value.lo), np.where(x.hi <= 0, np.minimum(value.hi, 1), value.hi)
    )


def gelu(x: Interval) -> Interval:
    """``x Phi(x)``, which falls to its least value -0.16997 at -0.7518 and rises from there."""
    return _valley(x, lambda v: v * 0.5 * torch.special.erfc(torch.from_numpy(-v / np.sqrt(2))).numpy(), -0.7518, -0.16998)


def silu(x: Interval) -> Interval:
    """``x sigmoid(x)``, which falls to its least value -0.27846 at -1.2785 and rises from there."""
    return _valley(x, lambda v: v * _sigmoid(v), -1.2785, -0.27847)


def _valley(x: Interval, function: Callable[[Array], Array], bottom: float, least: float) -> Interval:
    low, high = function(x.lo), function(x.hi)
    near = (x.lo < bottom + 0.01) & (x.hi > bottom - 0.01)
    value = Interval(np.where(near, least, np.minimum(low, high)), np.maximum(low, high))
    return value.widened(FUNCTION * x.size + TINY)


def turn(phase: Interval) -> tuple[Interval, Interval]:
    """Cosine and sine."""
    return _cosine(phase), _cosine(phase.map(lambda end: end - np.pi / 2))


def _cosine(x: Interval) -> Interval:
    low, high = np.cos(x.lo), np.cos(x.hi)
    top = np.ceil(x.lo / (2 * np.pi)) * 2 * np.pi <= x.hi
    bottom = (np.ceil((x.lo / np.pi - 1) / 2) * 2 + 1) * np.pi <= x.hi
    value = Interval(np.where(bottom, -1, np.minimum(low, high)), np.where(top, 1, np.maximum(low, high)))
    return value.widened(FUNCTION)


def _sigmoid(v: Array) -> Array:
    small = np.exp(-np.abs(v))
    return np.where(v >= 0, 1, small) / (1 + small)


def centred(x: Interval, eps: float, mean: bool = True) -> Interval:
    """``(x - m) / sqrt(mean((x - m)^2) + eps)`` along the last axis, with the mean ``m`` or, for RMS norms, ``m = 0``.

    Any float32 algorithm that is not worse than the mean of squares less the square of the mean is covered.
    """
    n = x.shape[-1]
    size = x.size.max(axis=-1, keepdims=True)
    c = linear(x, np.eye(n) - 1 / n).widened((n + 8) * UNIT * 2 * size) if mean else x
    squares = c.square()
    others = Interval(*(np.maximum(s.sum(-1, keepdims=True) - s, 0) for s in (squares.lo, squares.hi)))
    wobble = (4 * n + 120) * UNIT * size**2
    small, large = np.maximum(others.lo / n - wobble, 0) + eps, others.hi / n + wobble + eps

    def scaled(value: Array, rest: Array) -> Array:
        return np.asarray(value / np.sqrt(value**2 / n + rest))

    low = np.where(c.lo >= 0, scaled(c.lo, large), scaled(c.lo, small))
    high = np.where(c.hi >= 0, scaled(c.hi, small), scaled(c.hi, large))
    value = Interval(low, high)
    return value.widened(FUNCTION * value.size + TINY)
