"""Estimators: scikit-learn's conventions, series in every accepted form, early stopping, saving."""

import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from statetrack.errors import InvalidInputError, RunError
from statetrack.timeseries import StateTrackClassifier, StateTrackRegressor
from statetrack.timeseries.preprocessing import Preprocessing

SMALL = {"layer": "lru", "d_model": 8, "n_layers": 1, "max_epochs": 30, "lr": 0.02, "random_state": 0, "device": "cpu"}
EXCLUDED = {
    "check_regressors_train": "asks for R² above 0.5 on a table whose columns have no order, read here as one series per row",
}


def series(n=40, steps=24, channels=2, seed=0):
    """Noise; the second half of the cases has a wave in channel 0."""
    x = np.random.default_rng(seed).normal(size=(n, channels, steps))
    x[n // 2 :, 0] += 2 * np.sin(np.arange(steps))
    return x, np.array(["noise"] * (n // 2) + ["wave"] * (n - n // 2))


@pytest.fixture(scope="module")
def fitted():
    return StateTrackClassifier(**SMALL).fit(*series())


def test_learns_what_can_be_learnt(fitted):
    x, y = series(seed=1)
    assert fitted.score(x, y) > 0.9
    proba = fitted.predict_proba(x)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert (fitted.classes_[proba.argmax(1)] == fitted.predict(x)).all()


def test_forms_of_the_same_series_agree(fitted):
    x, _ = series(6, seed=2)
    np.testing.assert_allclose(fitted.predict_proba(list(x)), fitted.predict_proba(x), rtol=1e-5)
    alone = np.concatenate([fitted.predict_proba([case]) for case in x])
    np.testing.assert_allclose(alone, fitted.predict_proba(x), rtol=1e-4)


def test_a_row_of_a_batch_of_unequal_lengths_scores_as_alone(fitted):
    cases = [case[:, : 5 + 3 * i] for i, case in enumerate(series(6, seed=3)[0])]
    alone = np.concatenate([fitted.predict_proba([case]) for case in cases])
    np.testing.assert_allclose(fitted.predict_proba(cases), alone, rtol=1e-4)


def test_probabilities_are_those_of_the_network_on_standardised_series(fitted):
    x, _ = series(4, seed=4)
    train, _ = series()
    moments = fitted.preprocessing_
    with torch.no_grad():
        tokens = (x.transpose(0, 2, 1) - moments.mean) / moments.scale
        expected = fitted.network_(torch.tensor(tokens, dtype=torch.float32)).softmax(1)
    np.testing.assert_allclose(fitted.predict_proba(x), expected.numpy(), rtol=1e-4)
    assert np.abs(moments.mean - train.mean((0, 2))).max() < 0.2  # of the training part alone


def test_missing_values_get_a_channel_of_their_own():
    x, y = series()
    x[20:, 1, ::3] = np.nan
    x[:20, 1, ::7] = np.nan
    model = StateTrackClassifier(**SMALL).fit(x, y)
    assert model.preprocessing_.flagged.tolist() == [False, True]
    assert model.score(x, y) > 0.9 and np.isfinite(model.predict_proba(x)).all()


def test_one_hot_codes():
    panel = [np.array([[2, 0], [0, 1], [1, 2]], np.float32)]
    codes = Preprocessing.fit(panel, scaling="one-hot", patch=2)
    np.testing.assert_array_equal(codes(panel[0]), [[0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(codes(np.array([[9, 1]], np.float32)), [[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]])
    assert codes.n_features == 12 and Preprocessing.from_dict(codes.to_dict()).classes == (3, 3)
    for bad in (0.5, -1, 1e6):
        with pytest.raises(InvalidInputError, match="whole numbers"):
            Preprocessing.fit([np.full((2, 1), bad, np.float32)], scaling="one-hot", patch=1)


def test_letters_are_learnt_as_classes(tmp_path):
    y = np.arange(40) % 2
    letters = 2 * np.random.default_rng(0).integers(0, 3, size=(40, 1, 12)) + y[:, None, None]  # even or odd ones
    model = StateTrackClassifier(**{**SMALL, "scaling": "one-hot"}).fit(letters, y)
    assert model.score(letters, y) > 0.9
    model.save(tmp_path / "letters")
    loaded = StateTrackClassifier.load(tmp_path / "letters")
    np.testing.assert_array_equal(loaded.predict_proba(letters), model.predict_proba(letters))


@pytest.mark.parametrize("weight", ["balanced", {"noise": 1.0, "wave": 9.0}])
def test_class_weights_favour_the_rare_class(weight):
    x, y = series(40)
    x = np.random.default_rng(1).normal(size=x.shape)  # nothing to tell the classes apart
    rare = np.r_[0:20, 20:24]
    options = {**SMALL, "max_epochs": 3, "validation_fraction": 0.0}
    plain = StateTrackClassifier(**options).fit(x[rare], y[rare]).predict_proba(x)[:, 1].mean()
    weighted = StateTrackClassifier(class_weight=weight, **options).fit(x[rare], y[rare]).predict_proba(x)[:, 1].mean()
    assert weighted > plain


def test_stops_early_and_keeps_the_best_pass():
    x, y = series(60)
    model = StateTrackClassifier(**{**SMALL, "max_epochs": 200, "patience": 3}).fit(x[::2], y[::2], validation=(x[1::2], y[1::2]))
    assert model.n_iter_ < 200
    scores = [record["validation_score"] for record in model.history_]
    assert np.isclose(model.score(x[1::2], y[1::2]), max(scores))


def test_clones_pipelines_and_cross_validation():
    model = clone(StateTrackClassifier(**{**SMALL, "max_epochs": 15}))
    assert model.get_params()["d_model"] == 8
    assert model.set_params(patch=2).patch == 2
    piped = make_pipeline(FunctionTransformer(np.asarray, validate=False), model)
    x, y = series(24)
    assert cross_val_score(piped, x, y, cv=2).shape == (2,)


def test_same_seed_same_predictions():
    x, y = series(16)
    options = {**SMALL, "max_epochs": 3}
    first, second = (StateTrackClassifier(**options).fit(x, y).predict_proba(x) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_regression():
    x, _ = series()
    y = 100 + 10 * x[:, 0].mean(1)
    model = StateTrackRegressor(**{**SMALL, "max_epochs": 60}).fit(x, y)
    assert model.score(x, y) > 0.8
    assert model.predict(x).shape == (40,)


@pytest.mark.parametrize("layer", ["flash-pd-ssm", "lstm|linoss"])
def test_any_layer(layer):
    x, y = series(12)
    model = StateTrackClassifier(**{**SMALL, "layer": layer, "n_layers": 2, "max_epochs": 1}).fit(x, y)
    assert model.predict(x).shape == (12,)


def test_what_is_saved_predicts_the_same(tmp_path, fitted):
    x, y = series(8, seed=5)
    fitted.save(tmp_path / "model")
    loaded = StateTrackClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    assert loaded.get_params() == fitted.get_params() and loaded.predict(x).dtype == y.dtype
    with pytest.raises(RunError, match="StateTrackClassifier"):
        StateTrackRegressor.load(tmp_path / "model")
    (tmp_path / "model" / "network.safetensors").write_bytes(b"half")
    with pytest.raises(RunError, match="damaged"):
        StateTrackClassifier.load(tmp_path / "model")
    with pytest.raises(RunError):
        StateTrackClassifier.load(tmp_path / "nothing")
    with pytest.raises(NotFittedError):
        StateTrackClassifier().save(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"batch_size": 0}, "batch_size"),
        ({"scaling": "some"}, "scaling"),
        ({"pooling": "max"}, "pooling"),
        ({"patch": 0}, "patch"),
        ({"schedule": "linear"}, "schedule"),
        ({"lr": -1.0}, "lr"),
    ],
)
def test_options_that_do_not_fit_are_refused(change, words):
    with pytest.raises(InvalidInputError, match=words):
        StateTrackClassifier(**{**SMALL, **change}).fit(*series(12))


def test_series_that_do_not_fit_are_refused(fitted):
    with pytest.raises(InvalidInputError, match="2 channels"):
        fitted.predict(np.zeros((1, 3, 9)))
    with pytest.raises(InvalidInputError, match="infinity"):
        fitted.predict(np.full((1, 2, 9), np.inf))
    x, y = series(12)
    with pytest.raises(InvalidInputError, match="other"):
        StateTrackClassifier(**SMALL).fit(x, y, validation=(x[:1], ["other"]))


def test_without_the_extra_the_error_names_it():
    program = "import sys; sys.modules['sklearn'] = None\nimport statetrack.timeseries as t\nt.StateTrackClassifier"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "statetrack[timeseries]" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [kind(**{**SMALL, "max_epochs": 15}) for kind in (StateTrackClassifier, StateTrackRegressor)],
    expected_failed_checks=lambda estimator: EXCLUDED if isinstance(estimator, StateTrackRegressor) else {},
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
