"""Annealing at the pace that a model stands: forwards while it is right, backwards while it is not.

A layer whose choices harden (a modulus towards 1, a mixture of roots towards one root) may lose what it has learnt when this goes
by the clock. Here the share that is done, in [0, 1], follows the running accuracy of training.
"""

from __future__ import annotations

import math

from statetrack.training.config import AnnealConfig

_RETREAT = 2.0
"""Steps back count this much more than steps forwards."""


def advance(done: float, accuracy: float, n_layers: int, config: AnnealConfig) -> float:
    """The share of annealing that is done after one more step.

    Args:
        done: the share before it.
        accuracy: running training accuracy.
        n_layers: number of layers; from the bottom up, those that have ended never begin again.
        config: the rules; ``steps`` is given.
    """
    assert config.steps is not None
    if done >= 1:
        return 1.0
    if accuracy >= config.advance_at:
        return min(1.0, done + 1 / config.steps)
    if accuracy >= config.retreat_at:
        return done
    ended = math.floor(done * n_layers) / n_layers if config.order == "bottom-up" else 0.0
    return max(ended, done - _RETREAT / config.steps)


def layer_shares(done: float, n_layers: int, config: AnnealConfig) -> list[float]:
    """The share of annealing that each layer is told, the lowest first."""
    if config.order == "together":
        return [done] * n_layers
    return [min(1.0, max(0.0, done * n_layers - index)) for index in range(n_layers)]
