"""``StateTrackClassifier`` as a classifier of aeon, for its benchmarks and composites; needs the extra ``baselines``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from statetrack.errors import MissingExtraError
from statetrack.timeseries.estimators import StateTrackClassifier

try:
    from aeon.classification import BaseClassifier
except ImportError:

    class BaseClassifier:  # type: ignore[no-redef]
        def __init__(self) -> None:
            raise MissingExtraError("aeon", "baselines", "AeonClassifier")


class AeonClassifier(BaseClassifier):
    """A classifier of aeon around ours.

    Args:
        model: an unfitted ``StateTrackClassifier`` with its options; None takes the defaults.
        random_state: as in ``StateTrackClassifier``; None leaves the model's own.

    Attributes:
        model_: the fitted ``StateTrackClassifier``.
    """

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": ["np-list", "numpy3D"],
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "algorithm_type": "deeplearning",
    }

    def __init__(self, model: StateTrackClassifier | None = None, random_state: Any = None) -> None:
        self.model = model
        self.random_state = random_state
        super().__init__()

    def _fit(self, X: Any, y: Any) -> AeonClassifier:
        self.model_ = StateTrackClassifier() if self.model is None else clone(self.model)
        if self.random_state is not None:
            self.model_.set_params(random_state=self.random_state)
        self.model_.fit(X, y)
        return self

    def _predict(self, X: Any) -> npt.NDArray[Any]:
        return self.model_.predict(X)

    def _predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        return self.model_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Small settings for aeon's estimator checks."""
        return {"model": StateTrackClassifier("lru", d_model=4, n_layers=1, max_epochs=2, device="cpu"), "random_state": 0}
