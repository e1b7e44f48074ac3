"""Collections of series: what users hand in, as a list of arrays ``(T, C)``.

Letters: n = series, C = channels, T = steps of one series. NaN marks a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError

Series: TypeAlias = npt.NDArray[np.float32]
"""One series, ``(T, C)``."""

Panel: TypeAlias = list[Series]
"""Series of one number of channels and any lengths."""

_ACCEPTED = "an array (cases, channels, steps), an array (cases, steps), or a list of arrays (channels, steps) or (steps,)"


def as_panel(X: Any, *, n_channels: int | None = None) -> Panel:
    """Series in any of the usual forms, in float32.

    Args:
        X: an array ``(n, C, T)`` or ``(n, T)``, or a list of ``n`` arrays ``(C, T)`` or ``(T,)``; channels come first.
        n_channels: the number of channels that they must have; None takes any.

    Raises:
        InvalidInputError: another form, no series, an empty series, infinite values, or channels that do not agree.

    Example:
        >>> [series.shape for series in as_panel([np.zeros((2, 5)), np.zeros((2, 9))])]
        [(5, 2), (9, 2)]
    """
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim not in (2, 3):
        raise InvalidInputError(f"X needs {_ACCEPTED}; got an array of shape {X.shape}.")
    if not isinstance(X, np.ndarray | Sequence) or isinstance(X, str):
        raise InvalidInputError(f"X needs {_ACCEPTED}; got a {type(X).__name__}.")
    if len(X) == 0:
        raise InvalidInputError(f"X holds no series. It needs {_ACCEPTED}.")
    panel = [_series(case, i) for i, case in enumerate(X)]
    expected = panel[0].shape[1] if n_channels is None else n_channels
    for i, series in enumerate(panel):
        if series.shape[1] != expected:
            raise InvalidInputError(
                f"All series need {expected} channels; series {i} has {series.shape[1]}. Axes are (channels, steps)."
            )
    return panel


def _series(case: Any, i: int) -> Series:
    given = np.asarray(case)
    if given.ndim not in (1, 2):
        raise InvalidInputError(f"Series {i} needs shape (channels, steps) or (steps,); got {given.shape}.")
    if np.iscomplexobj(given):
        raise InvalidInputError(f"Complex data not supported: series {i} has dtype {given.dtype}.")
    try:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is refused below
            series = np.ascontiguousarray(np.atleast_2d(given).T, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"Series {i} cannot be read as numbers: {error}.") from error
    if series.size == 0:
        raise InvalidInputError(f"Series {i} is empty: shape {given.shape}.")
    if np.isinf(series).any():
        raise InvalidInputError(f"Series {i} holds infinity or a value too large for float32. NaN marks a missing value.")
    return series
