"""Random automata: connected, of the sizes asked for, reproducible, and not always the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from statetrack.automata import Automaton, random_automaton, random_permutation_automaton
from statetrack.errors import InvalidInputError

MAKERS = [random_automaton, random_permutation_automaton]
SIZES = [(1, 1), (1, 3), (2, 1), (7, 1), (7, 2), (30, 2), (5, 12)]


def reached(machine: Automaton) -> set[int]:
    found, waiting = set(), [machine.start]
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting.extend(machine.transitions[state].tolist())
    return found


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("n_states", "n_symbols"), SIZES)
def test_every_state_is_reachable(make: Callable[..., Automaton], n_states: int, n_symbols: int) -> None:
    for seed in range(5):
        machine = make(n_states, n_symbols, np.random.default_rng(seed))
        assert machine.transitions.shape == (n_states, n_symbols)
        assert reached(machine) == set(range(n_states))
        assert machine.outputs.tolist() == list(range(n_states))


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize(("n_states", "n_symbols"), SIZES)
def test_permutation_automata_permute(n_states: int, n_symbols: int, connected: bool) -> None:
    machine = random_permutation_automaton(n_states, n_symbols, np.random.default_rng(0), connected=connected)
    for symbol in range(n_symbols):
        assert sorted(machine.transitions[:, symbol].tolist()) == list(range(n_states))


@pytest.mark.parametrize("make", MAKERS)
def test_unconnected_automata_occur_only_when_asked_for(make: Callable[..., Automaton]) -> None:
    sizes = [len(reached(make(6, 1, np.random.default_rng(seed), connected=False))) for seed in range(20)]
    assert min(sizes) < 6


@pytest.mark.parametrize("make", MAKERS)
def test_output_classes_are_all_used(make: Callable[..., Automaton]) -> None:
    for seed in range(10):
        machine = make(6, 2, np.random.default_rng(seed), n_outputs=4)
        assert set(machine.outputs.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("make", MAKERS)
def test_same_generator_state_gives_the_same_automaton(make: Callable[..., Automaton]) -> None:
    first, again, other = (make(8, 2, np.random.default_rng(seed), n_outputs=3) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_single_permutations_are_uniform_over_cycles() -> None:
    rng = np.random.default_rng(0)
    counts: dict[bytes, int] = {}
    for _ in range(600):
        key = random_permutation_automaton(4, 1, rng).transitions.tobytes()
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 6  # 3! cycles of length 4
    assert max(abs(count - 100) for count in counts.values()) < 50  # five standard deviations


@pytest.mark.parametrize("make", MAKERS)
def test_bad_sizes_are_refused(make: Callable[..., Automaton]) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInputError, match="at least 1, but are 0 and 2"):
        make(0, 2, rng)
    with pytest.raises(InvalidInputError, match="at least 1, but are 2 and 0"):
        make(2, 0, rng)
    with pytest.raises(InvalidInputError, match=r"n_outputs must lie in 1 .. 2"):
        make(2, 2, rng, n_outputs=3)
    with pytest.raises(InvalidInputError, match=r"numpy\.random\.Generator"):
        make(2, 2, 7)
