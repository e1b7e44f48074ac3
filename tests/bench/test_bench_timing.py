"""Taking turns, with a clock that the test winds."""

from __future__ import annotations

import pytest
import torch

from statetrack.bench import timing
from statetrack.bench.timing import Timing, spread, take_turns


class Clock:
    """Time moves only when a contender runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls = 0.0, []
        for name in ("perf_counter", "thread_time"):
            monkeypatch.setattr(timing.time, name, lambda: self.now)

    def contender(self, name: str, *seconds: float):  # type: ignore[no-untyped-def]
        """Takes the given times in turn; the last one from then on."""
        left = list(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_contenders_alternate_and_warm_up_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = take_turns({"a": clock.contender("a", 9.0, 1.0), "b": clock.contender("b", 9.0, 2.0)}, budget=10.0)
    assert "".join(clock.calls[:8]) == "ab" + "ab" + "ba" + "ab"
    assert set(found["a"].rounds.values()) == {1.0}
    assert found["b"].median == 2.0


def test_budget_and_least_number_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    contenders = {"quick": clock.contender("q", 0.125), "middling": clock.contender("m", 1.0), "slow": clock.contender("s", 3.0)}
    found = take_turns(contenders, budget=2.0)
    assert {name: len(t.rounds) for name, t in found.items()} == {"quick": 16, "middling": 5, "slow": 3}


def test_quantiles_and_ratios_by_round() -> None:
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0, 6.0]) == {"median": 3.5, "low": 2.0, "high": 5.0}
    ours, limit = Timing({0: 2.0, 1: 6.0, 2: 9.0}), Timing({0: 1.0, 2: 3.0})
    assert ours.over(limit) == [2.0, 3.0]
    assert ours.summary() == {"median": 6.0, "low": 2.0, "high": 9.0, "rounds": 3}


def test_clock_is_named() -> None:
    assert timing.clock() == ("cpu" if torch.get_num_threads() == 1 else "wall")
