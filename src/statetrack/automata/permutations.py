"""Single permutations and maps as arrays of images: cycles, powers, where repetition leads."""

from __future__ import annotations

import math

import numpy as np

from statetrack.automata.arrays import IntArray


def cycle_lengths(permutation: IntArray) -> list[int]:
    """The length of each cycle of a permutation ``(n,)``, fixed points included.

    >>> sorted(cycle_lengths(np.array([1, 0, 2])))
    [1, 2]
    """
    lengths, after, seen = [], permutation.tolist(), bytearray(permutation.size)
    for start in range(permutation.size):
        if seen[start]:
            continue
        length, point = 0, start
        while not seen[point]:
            seen[point] = 1
            point = after[point]
            length += 1
        lengths.append(length)
    return lengths


def permutation_power(permutation: IntArray, exponent: int) -> IntArray:
    """A permutation applied ``exponent`` times; its inverse, ``-exponent`` times, if that is negative."""
    result = np.arange(permutation.size)
    base = permutation if exponent >= 0 else np.argsort(permutation)
    left = abs(exponent)
    if left > permutation.size:
        left %= math.lcm(*cycle_lengths(permutation))
    while left:
        if left % 2:
            result = base[result]
        base, left = base[base], left // 2
    return result


def settled(step: IntArray) -> IntArray:
    """The sorted points ``(m,)`` where repetitions of a map ``(n,)`` end up; the map permutes them."""
    points = np.arange(step.size)
    while (after := image(step, points)).size < points.size:
        points = after
    return points


def image(step: IntArray, points: IntArray) -> IntArray:
    """The sorted points ``(m,)`` to which a map ``(n,)`` takes some."""
    hit = np.zeros(step.size, dtype=bool)
    hit[step[points]] = True
    return np.flatnonzero(hit)


def period(step: IntArray, points: IntArray | None = None) -> int:
    """The least ``p >= 1`` such that ``p`` more repetitions of a map change nothing, once enough are done.

    Args:
        step: ``(n,)`` the map.
        points: sorted points that the map permutes, to ask about these alone; all where repetitions end up if None.
    """
    points = settled(step) if points is None else points
    if points.size == step.size:
        return math.lcm(*cycle_lengths(step))
    return math.lcm(*cycle_lengths(np.searchsorted(points, step[points])))
