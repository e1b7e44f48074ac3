"""aeon's estimator checks on our classifier, and its pipelines and collections."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("aeon")

from aeon.testing.estimator_checking import parametrize_with_checks

from statetrack.timeseries import StateTrackClassifier
from statetrack.timeseries.aeon_classifier import AeonClassifier


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@parametrize_with_checks([AeonClassifier])
def test_checks_of_aeon(check):
    check()


@pytest.mark.filterwarnings("default")
def test_predicts_what_the_model_predicts():
    x = np.random.default_rng(0).normal(size=(10, 2, 30)).astype(np.float32)
    model = StateTrackClassifier("lru", d_model=4, max_epochs=1, device="cpu", random_state=3)
    wrapped = AeonClassifier(model).fit(x, np.arange(10) % 2)
    np.testing.assert_array_equal(wrapped.predict_proba(x), model.fit(x, np.arange(10) % 2).predict_proba(x))
