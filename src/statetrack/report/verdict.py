"""What a measurement says, in one sentence."""

from __future__ import annotations

from collections.abc import Callable

from statetrack.report.tables import percent
from statetrack.training import TrainConfig
from statetrack.training.measure import Measurement


def verdict(found: Measurement, config: TrainConfig) -> str:
    """One plain sentence: how far the run is right, and where it breaks.

    Args:
        found: accuracy by length.
        config: of the run.

    Example:
        >>> verdict(Measurement({40: 1.0, 1000: 1.0}, 512, 0.2), TrainConfig("lstm", "parity"))
        'Right on every one of 512 words at each length up to 1,000, 25 times the longest it was trained on.'
    """
    lengths = list(found.accuracy)
    perfect = _reach(found, lambda share: share == 1)
    if perfect == lengths[-1]:
        return f"Right on every one of {found.n} words at each length up to {perfect:,}{_beyond(perfect, config)}."

    def at(length: int) -> str:
        return f"{percent(found.accuracy[length])} at length {length:,}, where guessing gives {percent(found.chance)}"

    good = found.longest_good
    if good is None:
        return f"Has not learnt the task: {at(lengths[0])}."
    start = f"Right on every one of {found.n} words up to length {perfect:,}" if perfect else "Nearly right"
    if good == lengths[-1]:
        if perfect:
            return f"{start}, and on {percent(found.accuracy[good])} of the labels at {good:,}{_beyond(good, config)}."
        return f"{start}: {percent(min(found.accuracy.values()))} or more at each length up to {good:,}{_beyond(good, config)}."
    broken = at(lengths[lengths.index(good) + 1])
    if perfect == good:
        return f"{start}, then it breaks: {broken}."
    return f"Above 90 % up to length {good:,} ({percent(found.accuracy[good])} there), then it breaks: {broken}."


def _reach(found: Measurement, enough: Callable[[float], bool]) -> int | None:
    """The longest length up to which every accuracy is enough."""
    reach = None
    for length, share in found.accuracy.items():
        if not enough(share):
            break
        reach = length
    return reach


def _beyond(length: int, config: TrainConfig) -> str:
    ratio = length / config.lengths.high
    return f", {ratio:,.0f} times the longest it was trained on" if ratio >= 2 else ""
