"""Bounds of the diagonal ``D(u)`` of a selective layer."""

from __future__ import annotations

import numpy as np

from statetrack.analysis.certificate.intervals import UNIT, Interval, exp, log_sigmoid, sigmoid, softplus
from statetrack.analysis.certificate.modules import bounds
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.layers.diagonal_generators import DiagonalGenerator


def always_one(diagonal: DiagonalGenerator) -> bool:
    """Whether the diagonal is exactly 1 for every input."""
    return diagonal.phase is None and (diagonal.magnitude is None or _annealed(diagonal))


def _annealed(diagonal: DiagonalGenerator) -> bool:
    """Whether annealing is over, after which the logarithm of the modulus is multiplied by exactly 0."""
    return diagonal.modulus == "annealed" and float(diagonal.progress) == 1


def diagonal_bounds(diagonal: DiagonalGenerator, u: Interval) -> tuple[Interval, Interval | None]:
    """Modulus and phase ``(B, H, N)`` for inputs ``(B, E)``; no phase for a real diagonal."""
    shape = (len(u.lo), *diagonal.shape)
    phase = None
    if diagonal.levels is not None:
        raise Undecided(
            "phases are picked, and the rounding of products of roots of unity has no bound that holds at every length"
        )
    if diagonal.phase is not None:
        phase = bounds(diagonal.phase, u)
        if diagonal.kind != "decay_phase":
            phase = sigmoid(phase) * Interval.point(2 * np.pi)
        phase = phase.map(lambda end: end.reshape(shape))
    if diagonal.magnitude is None or _annealed(diagonal):
        return Interval.point(np.ones(shape)), phase
    logits = bounds(diagonal.magnitude, u)
    if diagonal.kind == "decay_phase":
        log_modulus = -softplus(logits) * exp(Interval.point(diagonal.a_log))
    else:
        log_modulus = log_sigmoid(logits)
    if diagonal.modulus == "annealed":
        log_modulus = log_modulus * Interval.point(1 - float(diagonal.progress)).widened(UNIT)
    return exp(log_modulus).map(lambda end: end.reshape(shape)), phase
