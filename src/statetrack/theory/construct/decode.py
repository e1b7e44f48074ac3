"""From features to classes: a linear map whose largest score is right, or gates where there is none.

    scores = W f + b ,   argmax_c (W f + b)_c = class of the prototype that f is

If every prototype is a class of its own and all have one length, rows of W are the prototypes themselves (a matched filter); else
W and b solve ``W f + b = e_class``, with b = 0 if they can. Without b no scale of f changes the answer.

Letters: f = features, W, b = weights and bias of the head. Source: the library's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray
from statetrack.theory.construct.gates import Gates, Literal

Array = npt.NDArray[np.float64]

_ROUNDING = 1e-9
_BLOCK = 512


class Linear(NamedTuple):
    """Attributes:
    weight: ``(n_classes, F)``.
    bias: ``(n_classes,)``.
    """

    weight: Array
    bias: Array


def linear_scores(prototypes: Array, classes: IntArray, n_classes: int) -> Linear | None:
    """The map for prototypes ``(n, F)`` and their classes ``(n,)``, None if there is none of these kinds."""
    lengths, size = np.linalg.norm(prototypes, axis=1), prototypes.shape[1]
    if np.unique(classes).size == classes.size and np.ptp(lengths) < _ROUNDING * max(1.0, lengths.max()):
        weight = np.zeros((n_classes, size))
        weight[classes] = prototypes
        return Linear(weight, np.zeros(n_classes))
    wanted = np.eye(n_classes)[classes] - 1 / n_classes
    for constant in (0.0, 1.0):
        features = np.concatenate([prototypes, np.full((len(prototypes), 1), constant)], axis=1)
        solution = np.linalg.lstsq(features, wanted, rcond=None)[0]
        if np.abs(features @ solution - wanted).max() < 1e-6:
            return Linear(solution[:-1].T, solution[-1])
    return None


def class_gates(prototypes: Array, classes: IntArray) -> Gates:
    """Gates from features in columns ``0 .. F - 1``, prototypes of one length, to one bit for each class."""
    gates = Gates()
    for first in range(0, len(prototypes), _BLOCK):
        block = prototypes[first : first + _BLOCK]
        overlap = block @ prototypes.T
        rows = np.arange(len(block))
        own = overlap[rows, first + rows]
        overlap[rows, first + rows] = -np.inf
        widths = own - np.maximum(overlap.max(axis=1), 0)
        for prototype, length, width, label in zip(block, own, widths, classes[first : first + _BLOCK].tolist(), strict=True):
            weights = tuple((i, float(w) / width) for i, w in enumerate(prototype) if w != 0)
            gates.conjunction([Literal(weights, 1 - length / width)], label)
    return gates
