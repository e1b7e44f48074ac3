"""Pieces of long records: windows, windows around marks, another sampling rate, and parts that share no patient."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.timeseries.panel import Panel, Series
from statetrack.timeseries.pooled import Split

Positions = npt.NDArray[np.int64]
_LARGEST_FACTOR = 10_000


def windows(series: Series, length: int, *, stride: int | None = None) -> tuple[Panel, Positions]:
    """Whole windows of a record and the steps they begin at; what is left at the end is dropped.

    Args:
        series: ``(T, C)``.
        length: steps of a window.
        stride: steps from one beginning to the next; None leaves no overlap.

    Raises:
        InvalidInputError: a length or stride below 1.

    Example:
        >>> pieces, starts = windows(np.zeros((10, 1), np.float32), 4, stride=3)
        >>> starts.tolist(), pieces[0].shape
        ([0, 3, 6], (4, 1))
    """
    stride = length if stride is None else stride
    if length < 1 or stride < 1:
        raise InvalidInputError(f"length and stride must be at least 1; got {length} and {stride}.")
    starts = np.arange(0, len(series) - length + 1, stride, dtype=np.int64)
    return [series[start : start + length] for start in starts], starts


def around(series: Series, marks: Positions, *, before: int, after: int) -> tuple[Panel, Positions]:
    """Windows from ``before`` steps before a mark to ``after`` steps after it, and the indices of the marks that have one.

    Marks so near to an end that their window would leave the record have none.

    Raises:
        InvalidInputError: an empty window.
    """
    if before < 0 or after < 0 or before + after < 1:
        raise InvalidInputError(f"before and after must be at least 0 and together at least 1; got {before} and {after}.")
    kept = np.flatnonzero((marks >= before) & (marks + after <= len(series)))
    return [series[marks[i] - before : marks[i] + after] for i in kept], kept


def resample(series: Series, rate: float, target: float) -> Series:
    """The same record at another sampling rate, through a low-pass filter that keeps out what the new rate cannot show.

    Args:
        series: ``(T, C)`` without missing values.
        rate: its steps per second.
        target: steps per second of the result, which has ``ceil(T target / rate)`` steps.

    Raises:
        InvalidInputError: missing values, rates that are not positive or whose ratio is no fraction of numbers up to 10,000.
        MissingExtraError: SciPy is missing, which scikit-learn brings along.
    """
    try:
        from scipy.signal import resample_poly
    except ImportError as error:
        raise MissingExtraError("scipy", "timeseries", "resampling") from error
    if not (rate > 0 and target > 0 and np.isfinite(rate) and np.isfinite(target)):
        raise InvalidInputError(f"Rates must be positive; got {rate} and {target}.")
    ratio = (Fraction(target) / Fraction(rate)).limit_denominator(_LARGEST_FACTOR)
    if ratio.numerator < 1 or abs(float(ratio) * rate / target - 1) > 1e-6:
        raise InvalidInputError(f"{target} / {rate} is no fraction of whole numbers up to {_LARGEST_FACTOR}.")
    if np.isnan(series).any():
        raise InvalidInputError("Missing values cannot be resampled; fill them first.")
    if ratio == 1:
        return series
    found = resample_poly(series.astype(np.float64), ratio.numerator, ratio.denominator, axis=0, padtype="line")
    return np.ascontiguousarray(found, dtype=np.float32)


def split_by_group(
    groups: Sequence[Any] | npt.NDArray[Any], generator: np.random.Generator, *, shares: Sequence[float] = (0.7, 0.15, 0.15)
) -> Split:
    """Three parts such that all windows of a patient are in one of them.

    Patients come in random order, and each goes to the part that lacks most of its share of windows.

    Args:
        groups: ``(n,)`` the patient of each window.
        generator: of the order.
        shares: of training, validation and test part; they sum to 1.

    Raises:
        InvalidInputError: fewer patients than parts, or shares that do not fit.

    Example:
        >>> parts = split_by_group(["a", "a", "b", "c", "c"], np.random.default_rng(0))
        >>> sorted(len(part) for part in parts)
        [1, 2, 2]
    """
    if len(shares) != 3 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise InvalidInputError(f"shares need three positive numbers that sum to 1; got {tuple(shares)}.")
    names, ids = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < len(shares):
        raise InvalidInputError(f"{len(shares)} parts that share no patient need as many patients; got {len(names)}.")
    sizes = np.bincount(ids)
    lacking = np.array(shares) * len(ids)
    empty = [0, 1, 2]
    part_of = np.zeros(len(names), dtype=np.int64)
    left = len(names)
    for group in generator.permutation(len(names)):
        # Once there are only as many patients left as parts without one, they go there.
        choices = empty if left == len(empty) else [0, 1, 2]
        part = max(choices, key=lambda i: lacking[i])
        part_of[group] = part
        lacking[part] -= sizes[group]
        empty = [each for each in empty if each != part]
        left -= 1
    return Split(*(np.flatnonzero(part_of[ids] == part) for part in range(3)))
