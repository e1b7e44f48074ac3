"""Cycles, powers and periods of maps, against repetition one step at a time."""

import numpy as np
import pytest

from statetrack.automata.permutations import cycle_lengths, image, period, permutation_power, settled


@pytest.mark.parametrize("seed", range(6))
def test_permutations(seed):
    generator = np.random.default_rng(seed)
    step = generator.permutation(int(generator.integers(1, 12)))
    orbits = {frozenset(walk(step, point)) for point in range(step.size)}
    assert sorted(cycle_lengths(step)) == sorted(map(len, orbits))
    for exponent in (0, 1, 2, 7, 50, 10**12 + 3, -1, -9):
        order, inverse = period(step), np.argsort(step)
        expected = np.arange(step.size)
        for _ in range(abs(exponent) % order):
            expected = (step if exponent > 0 else inverse)[expected]
        np.testing.assert_array_equal(permutation_power(step, exponent), expected)


@pytest.mark.parametrize("seed", range(6))
def test_maps(seed):
    generator = np.random.default_rng(100 + seed)
    n = int(generator.integers(1, 12))
    step = generator.integers(n, size=n)
    late = [np.arange(n)]
    for _ in range(3000):
        late.append(step[late[-1]])
    assert settled(step).tolist() == sorted(set(late[n].tolist()))
    assert image(step, np.arange(0, n, 2)).tolist() == sorted({int(step[point]) for point in range(0, n, 2)})
    assert period(step) == next(p for p in range(1, 3000) if (late[n + p] == late[n]).all())


def walk(step, point):
    seen = []
    while point not in seen:
        seen.append(point)
        point = int(step[point])
    return seen
