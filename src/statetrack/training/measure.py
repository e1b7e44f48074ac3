"""Accuracy of a run by length on the test split, with what it takes to read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from statetrack.training.run import Run

DEFAULT_LENGTHS = (40, 64, 128, 256, 1000)
_GOOD = 0.9


@dataclass(frozen=True)
class Measurement:
    """Accuracy by length.

    Attributes:
        accuracy: share of right labels at each length, shortest first.
        n: number of test words at each length.
        chance: accuracy of the best constant answer.
        pooled: ``{"low", "high", "n", "accuracy"}`` over words with uniform lengths, if it was asked for.
    """

    accuracy: dict[int, float]
    n: int
    chance: float
    pooled: dict[str, Any] | None = None

    def interval(self, length: int) -> tuple[float, float]:
        """95 % interval of the accuracy at a length, from the number of words."""
        return wilson_interval(self.accuracy[length], self.n)

    def scaled(self, length: int) -> float:
        """Accuracy with chance at 0 and perfection at 1."""
        return (self.accuracy[length] - self.chance) / (1 - self.chance)

    @property
    def longest_good(self) -> int | None:
        """The longest measured length up to which accuracy stays above 90 %."""
        longest = None
        for length, share in self.accuracy.items():
            if share <= _GOOD:
                break
            longest = length
        return longest

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "accuracy": {str(length): share for length, share in self.accuracy.items()},
            "scaled_accuracy": {str(length): self.scaled(length) for length in self.accuracy},
            "interval_95": {str(length): list(self.interval(length)) for length in self.accuracy},
            "longest_above_90": self.longest_good,
            "n": self.n,
            "chance": self.chance,
            "pooled": self.pooled,
        }


def measure(
    run: Run, lengths: Sequence[int] = (), *, n: int = 512, pooled: tuple[int, int] | None = None, reuse: bool = False
) -> Measurement:
    """Test a run at some lengths.

    Args:
        run: the run.
        lengths: word lengths; none means the default ones that the task can make.
        n: words per length.
        pooled: also pool over words with uniform lengths in this range.
        reuse: take what an earlier test of the same weights with as many words has found.

    Raises:
        InvalidInputError: a length the task cannot make.
        RunError: a run without a checkpoint.
    """
    asked = sorted(set(lengths)) or default_lengths(run)
    known = _remembered(run, n) if reuse else {}
    known_pooled = known.get("pooled")
    if pooled is not None and known_pooled is not None and (known_pooled["low"], known_pooled["high"]) == pooled:
        pooled = None
    else:
        known_pooled = None
    accuracy = {int(length): share for length, share in known.get("accuracy", {}).items()}
    missing = [length for length in asked if length not in accuracy]
    found: dict[str, Any] = {"pooled": None}
    if missing or pooled is not None:
        with threads(run.config.threads):
            found = run.evaluate(missing, n=n, pooled=pooled)
        accuracy.update(found["accuracy"])
    return Measurement({length: accuracy[length] for length in asked}, n, run.task.chance, known_pooled or found["pooled"])


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use a number of CPU threads; on a busy machine more threads than cores cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_lengths(run: Run) -> list[int]:
    """The usual test lengths that the run's task can make."""
    return [length for length in DEFAULT_LENGTHS if length >= run.task.min_length]


def remembered_lengths(run: Run, n: int) -> list[int]:
    """Lengths at which the present weights were tested with ``n`` words."""
    return sorted(int(length) for length in _remembered(run, n).get("accuracy", {}))


def _remembered(run: Run, n: int) -> dict[str, Any]:
    """What is known about the present weights from ``n`` words per length."""
    stored = run.evaluation()
    accuracy = {length: share for length, share in stored.get("accuracy", {}).items() if stored["n"][length] == n}
    return {"accuracy": accuracy, "pooled": stored.get("pooled")}


def wilson_interval(share: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a share among ``n`` trials.

    Example:
        >>> low, high = wilson_interval(1.0, 512)
        >>> round(low, 4), high
        (0.9926, 1.0)
    """
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Exact at both ends, where rounding would leave 0.9999999999999999.
    return max(0.0, round(centre - half, 12)), min(1.0, round(centre + half, 12))
