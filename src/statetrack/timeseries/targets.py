"""What series are trained towards, checked: labels or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_consistent_length, column_or_1d

from statetrack.errors import InvalidInputError

Array = npt.NDArray[Any]


def labels_of(X: Any, y: Any) -> Array:
    """One label per series, ``(n,)``; ``InvalidInputError`` without labels, ``ValueError`` for another number of them."""
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return y


def numbers_of(X: Any, y: Any) -> Array:
    """One finite number per series, ``(n,)`` float64; errors as in ``labels_of``."""
    y = np.asarray(labels_of(X, y), dtype=np.float64)
    if len(y) == 0:
        raise InvalidInputError("y is empty: at least one series is needed, found 0 sample(s).")
    if not np.isfinite(y).all():
        raise InvalidInputError("y holds NaN or infinity; every series needs a finite number.")
    return y
