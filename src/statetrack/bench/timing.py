"""Timing contenders against each other: they take turns, so that whatever else the machine does falls on all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

_MOST = 100
"""Rounds at most."""


@dataclass
class Timing:
    """Seconds of one contender by round."""

    rounds: dict[int, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """In seconds."""
        return statistics.median(self.rounds.values())

    def over(self, other: Timing) -> list[float]:
        """Our time over that of another contender, in every round that both took."""
        return [seconds / other.rounds[i] for i, seconds in self.rounds.items() if i in other.rounds]

    def summary(self) -> dict[str, Any]:
        """Median, the quantiles 0.2 and 0.8, and the number of rounds."""
        return {**spread(list(self.rounds.values())), "rounds": len(self.rounds)}


def spread(values: list[float]) -> dict[str, float]:
    """Median and the quantiles 0.2 and 0.8."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"median": statistics.median(ordered), "low": ordered[round(0.2 * last)], "high": ordered[round(0.8 * last)]}


def take_turns(contenders: Mapping[str, Callable[[], object]], budget: float) -> dict[str, Timing]:
    """Time contenders in rounds, every other round in reverse order, after a warm-up call of each.

    Args:
        contenders: what to call, by name.
        budget: seconds per contender; one that has used it up sits out, but each takes 5 rounds, or 3 if one call is over budget.
    """
    least = {name: 5 if seconds(call) <= budget else 3 for name, call in contenders.items()}
    found = {name: Timing() for name in contenders}
    for i in range(_MOST):
        active = [name for name in contenders if i < least[name] or sum(found[name].rounds.values()) < budget]
        if not active:
            break
        for name in active if i % 2 == 0 else reversed(active):
            found[name].rounds[i] = seconds(contenders[name])
    return found


def clock() -> str:
    """``"cpu"`` on one thread: the time the thread runs, which other programs leave nearly unchanged. Else ``"wall"``."""
    return "cpu" if torch.get_num_threads() == 1 else "wall"


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes, by ``clock``."""
    now = time.thread_time if clock() == "cpu" else time.perf_counter
    began = now()
    call()
    return now() - began
