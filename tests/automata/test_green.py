"""Green's relations and maximal subgroups against ideals that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.automata import Automaton, derived_series, green_classes, maximal_subgroups, random_automaton, transition_monoid
from statetrack.automata.components import strong_components

MONOIDS = {
    "all maps of 3 points": Automaton([[1, 1, 0], [2, 0, 0], [0, 2, 2]], [0, 1, 2]),
    **{f"random {seed}": random_automaton(4, 2, np.random.default_rng(seed)) for seed in range(5)},
}


def partition(labels: object) -> list[int]:
    """Labels renumbered by first appearance."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", MONOIDS)
def test_classes_are_equal_ideals(name: str) -> None:
    monoid = transition_monoid(MONOIDS[name])
    table, green = monoid.table, green_classes(monoid)
    right = [frozenset(table[a].tolist()) for a in range(monoid.size)]
    left = [frozenset(table[:, a].tolist()) for a in range(monoid.size)]
    both = [frozenset(table[:, table[a]].ravel().tolist()) for a in range(monoid.size)]
    assert partition(green.r.tolist()) == partition(right)
    assert partition(green.l.tolist()) == partition(left)
    assert partition(green.j.tolist()) == partition(both)
    assert partition(green.h.tolist()) == partition(zip(right, left, strict=True))


@pytest.mark.parametrize("name", MONOIDS)
def test_maximal_subgroups_are_the_h_classes_of_idempotents(name: str) -> None:
    monoid = transition_monoid(MONOIDS[name])
    green, found = green_classes(monoid), maximal_subgroups(monoid)
    assert sorted(green.j[[s.idempotent for s in found]].tolist()) == sorted(set(green.j[monoid.idempotents].tolist()))
    for s in found:
        assert s.elements.tolist() == np.flatnonzero(green.h == green.h[s.idempotent]).tolist()
        assert s.group.order == s.order
        restricted = {tuple(np.searchsorted(s.points, monoid.elements[m][s.points]).tolist()) for m in s.elements}
        assert set(map(tuple, s.group.elements.tolist())) == restricted


def test_a_large_monoid() -> None:
    found = maximal_subgroups(transition_monoid(random_automaton(12, 2, np.random.default_rng(6))))
    assert [(len(s.points), s.order) for s in found] == [(12, 1), (5, 2), (5, 4), (4, 6), (3, 2), (2, 1), (1, 1)]
    assert max(len(derived_series(s.group)) - 1 for s in found) == 2


@pytest.mark.parametrize("seed", range(8))
def test_strong_components_are_mutual_reachability(seed: int) -> None:
    n = 12
    successors = np.random.default_rng(seed).integers(n, size=(n, 1 + seed % 2))
    reach = np.eye(n, dtype=bool)
    reach[np.arange(n)[:, None], successors] = True
    for _ in range(n):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    labels = strong_components(successors)
    assert np.array_equal(labels[:, None] == labels, reach & reach.T)
    assert (labels[:, None] >= labels)[reach].all()
