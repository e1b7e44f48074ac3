"""Long time series: estimators in scikit-learn's style, training in small memory, streams, readers and protocols.

The estimators need the extra ``timeseries``; everything else needs NumPy and torch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statetrack.errors import MissingExtraError

if TYPE_CHECKING:
    from statetrack.timeseries.estimators import StateTrackClassifier, StateTrackRegressor

__all__ = ["StateTrackClassifier", "StateTrackRegressor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "timeseries", f"statetrack.timeseries.{name}") from error
    from statetrack.timeseries import estimators

    return getattr(estimators, name)
