"""Checked integer arrays, the only data of this folder."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError

IntArray: TypeAlias = npt.NDArray[np.int64]


def as_ids(values: npt.ArrayLike, what: str, n_ids: int | None = None, ndim: int | None = None) -> IntArray:
    """``values`` as an int64 array of ids in ``0 .. n_ids - 1`` (any id from 0 on if ``n_ids`` is None).

    Args:
        values: whole numbers of any integer dtype, or booleans; an empty list counts as whole numbers.
        what: name of the argument in messages.
        n_ids: number of valid ids.
        ndim: required number of axes.

    Raises:
        InvalidInputError: not whole numbers, an id outside the range, or another number of axes.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{what} must be a rectangular array of whole numbers: {error}.") from None
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise InvalidInputError(f"{what} must hold whole numbers, but has dtype {array.dtype}.")
    if ndim is not None and array.ndim != ndim:
        raise InvalidInputError(f"{what} must have {ndim} axes, but has shape {array.shape}.")
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < 0 or (n_ids is not None and high >= n_ids):
            allowed = "0 or more" if n_ids is None else f"0 .. {n_ids - 1}"
            raise InvalidInputError(f"{what} must lie in {allowed}, but holds {low if low < 0 else high}.")
    return array.astype(np.int64, copy=False)


def frozen(array: IntArray) -> IntArray:
    """A read-only contiguous copy of ``array``."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy
