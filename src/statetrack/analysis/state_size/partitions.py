"""Partitions of the states of column-one-hot layers: which can be reached, and which nothing tells apart.

A map q from states to classes is valid if the class of ``pi(i)`` and all labels of i depend on the class of i alone; then the
sums of the state over classes follow a model with a state for each class. The coarsest valid one is found by refinement from
the labels, as automata are minimised.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def reachable(maps: IntArray, start: npt.NDArray[np.bool_]) -> IntArray:
    """States that maps ``(K, N)`` lead to from the states ``start (N,)``, ascending.

    Example:
        >>> reachable(np.array([[1, 0, 0, 3]]), np.array([True, False, False, False])).tolist()
        [0, 1]
    """
    found = start.copy()
    while True:
        grown = found.copy()
        grown[maps[:, found].ravel()] = True
        if (grown == found).all():
            return np.flatnonzero(found)
        found = grown


def coarsest(maps: IntArray, labels: IntArray) -> IntArray:
    """Classes ``(N,)``, numbered from 0 by first appearance, of the coarsest valid partition that respects ``labels (N,)``.

    Example:
        >>> coarsest(np.array([[1, 2, 3, 0]]), np.array([0, 1, 0, 1])).tolist()
        [0, 1, 0, 1]
    """
    classes = labels
    while True:
        keys = np.stack([classes, *classes[maps]], axis=1)
        _, refined = np.unique(keys, axis=0, return_inverse=True)
        if refined.max(initial=-1) == classes.max(initial=-1) and len(np.unique(classes)) == len(np.unique(refined)):
            return _by_appearance(refined.ravel())
        classes = refined.ravel()


def alike(features: FloatArray, tolerance: float) -> IntArray:
    """Labels ``(N,)``: each row of ``features (N, F)`` joins the first that it differs from by at most ``tolerance`` anywhere.

    Example:
        >>> alike(np.array([[0.0], [1.0], [0.05]]), 0.1).tolist()
        [0, 1, 0]
    """
    leaders: list[FloatArray] = []
    labels = []
    for row in features:
        near = [k for k, leader in enumerate(leaders) if np.abs(row - leader).max(initial=0.0) <= tolerance]
        labels.append(near[0] if near else len(leaders))
        if not near:
            leaders.append(row)
    return np.array(labels, dtype=np.int64)


def _by_appearance(classes: IntArray) -> IntArray:
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
