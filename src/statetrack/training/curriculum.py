"""Which lengths to train on: a range that grows as it is learnt."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from statetrack.tasks import uniform_lengths
from statetrack.training.config import LengthConfig

_MEMORY = 0.98
"""Decay of the running accuracy: about fifty steps."""

_PATIENCE = 150
"""Steps a stage is given before it can count as too hard."""


@dataclass
class Curriculum:
    """The present stage and how well it goes.

    Attributes:
        longest: longest length drawn now.
        accuracy: running training accuracy, restarted from half its value at each stage.
        grown: how many stages were learnt.
        age: steps taken in this stage.
    """

    longest: float
    accuracy: float = 0.0
    grown: int = 0
    age: int = 0

    @classmethod
    def begin(cls, config: LengthConfig) -> Curriculum:
        """The first stage."""
        return cls(float(min(config.high, config.start or config.high)))

    def draw(self, batch_size: int, config: LengthConfig, generator: np.random.Generator) -> np.ndarray:
        """``(batch_size,)`` lengths for one batch."""
        high = max(config.low, int(self.longest))
        if config.mixed:
            return uniform_lengths(batch_size, config.low, high, generator)
        return np.repeat(uniform_lengths(1, config.low, high, generator), batch_size)

    def update(self, accuracy: float, config: LengthConfig) -> None:
        """Take in the accuracy of one batch; grow when the stage is learnt, shrink when it proves too hard."""
        self.accuracy = _MEMORY * self.accuracy + (1 - _MEMORY) * accuracy
        self.age += 1
        if self.accuracy >= config.threshold and self.longest < config.high:
            self.longest = min(float(config.high), self.longest * config.growth)
            self.accuracy *= 0.5
            self.grown += 1
            self.age = 0
        elif self.accuracy < config.retreat and self.age >= _PATIENCE:
            self.longest = max(Curriculum.begin(config).longest, self.longest / config.growth)
            self.age = 0

    def complete(self, config: LengthConfig) -> bool:
        """Whether the whole range is in use and learnt."""
        return self.longest >= config.high and self.accuracy >= config.threshold

    def to_dict(self) -> dict[str, float]:
        """Plain data for a checkpoint."""
        return asdict(self)
