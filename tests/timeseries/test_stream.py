"""Streams: any blocks give what the whole series gives, and nothing grows with the length."""

from itertools import count, pairwise

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.exceptions import NotFittedError

from statetrack.errors import InvalidInputError
from statetrack.timeseries import StateTrackClassifier, StateTrackRegressor
from statetrack.timeseries.stream import SeriesStream, classify_segments

SMALL = {"d_model": 8, "n_layers": 2, "max_epochs": 1, "random_state": 0, "device": "cpu"}


def fitted(layer="linoss", kind=StateTrackClassifier, **options):
    x = np.random.default_rng(0).normal(size=(12, 2, 40)).astype(np.float32)
    if options.pop("missing", False):
        x[::2, 1, ::3] = np.nan
    return kind(layer, **{**SMALL, **options}).fit(x, np.arange(12) % 3)


def long_series(steps, seed=1):
    return np.random.default_rng(seed).normal(size=(2, steps)).astype(np.float32)


def whole(model, x):
    """The network over all tokens at once, by hand from its moments."""
    moments = model.preprocessing_
    steps = (x.T - moments.mean) / moments.scale
    steps = np.concatenate([steps, np.zeros((-len(steps) % moments.patch, 2), np.float32)])
    tokens = torch.tensor(steps.reshape(1, -1, 2 * moments.patch), dtype=torch.float32)
    with torch.no_grad():
        return model.network_(tokens)[0].double().softmax(0).numpy()


@pytest.mark.parametrize("patch", [1, 3])
@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("layer", ["linoss", "flash-pd-ssm", "mamba", "lstm"])
def test_any_blocks_equal_the_whole(layer, pooling, patch):
    model, x = fitted(layer, pooling=pooling, patch=patch), long_series(200)
    stream = SeriesStream(model)
    cuts = [0, 1, 2, 50, 50, 131, 200]
    for a, b in pairwise(cuts):
        stream.push(x[:, a:b])
        if b:
            np.testing.assert_allclose(stream.predict_proba(), whole(model, x[:, :b]), atol=1e-5)
    assert stream.n_steps == 200 and stream.predict() == model.predict([x])[0]


def test_steps_equal_the_whole_over_a_long_series():
    model, x = fitted("lru"), long_series(3000)
    stream = SeriesStream(model)
    sizes = set()
    for t in range(3000):
        stream.step(x[:, t])
        sizes.add(sum(tensor.numel() for tensor in stream._carry.tensors()) + stream._waiting.size)
    assert len(sizes) == 1, "what a stream holds does not grow"
    np.testing.assert_allclose(stream.predict_proba(), whole(model, x), atol=1e-5)


def test_missing_values_and_numbers():
    model, x = fitted(missing=True), long_series(60)
    x[1, 5:20] = np.nan
    stream = SeriesStream(model)
    for t in range(60):
        stream.step(x[:, t])
    np.testing.assert_allclose(stream.predict_proba(), model.predict_proba([x])[0], atol=1e-5)
    regressor = fitted(kind=StateTrackRegressor)
    stream = SeriesStream(regressor)
    stream.push(long_series(30))
    assert np.isclose(stream.predict(), regressor.predict([long_series(30)])[0], atol=1e-5)


@pytest.mark.parametrize("block", [1, 7, 64, 500])
def test_windows_of_a_stream_equal_windows_that_are_cut(block):
    model, x = fitted(), long_series(230)
    blocks = (x[:, a : a + block] for a in range(0, 230, block))
    found = list(classify_segments(model, blocks, count(50, 50)))
    assert [(a, b) for a, b, _ in found] == [(0, 50), (50, 100), (100, 150), (150, 200)]
    expected = model.predict_proba([x[:, a : a + 50] for a in range(0, 200, 50)])
    np.testing.assert_allclose([proba for *_, proba in found], expected, atol=1e-5)


@pytest.mark.parametrize("patch", [1, 4])
def test_layers_may_remember_earlier_segments(patch):
    model, x = fitted("lru", pooling="last", patch=patch), long_series(90)
    borders = [40, 60, 88] if patch == 4 else [13, 60, 88]
    found = list(classify_segments(model, [x], borders, keep_state=True))
    np.testing.assert_allclose(found[-1][2], whole(model, x[:, :88]), atol=1e-5)
    alone = list(classify_segments(model, [x], borders))
    assert not np.allclose(alone[-1][2], found[-1][2], atol=1e-4)


def test_what_does_not_fit_is_refused():
    model = fitted()
    with pytest.raises(InvalidInputError, match="scaling"):
        SeriesStream(fitted(scaling="series"))
    with pytest.raises(NotFittedError):
        SeriesStream(StateTrackClassifier())
    stream = SeriesStream(model)
    with pytest.raises(InvalidInputError, match="Nothing"):
        stream.predict()
    with pytest.raises(InvalidInputError, match="shape"):
        stream.push(np.zeros((3, 4)))
    with pytest.raises(InvalidInputError, match="infinity"):
        stream.push(np.full((2, 4), np.inf))
    with pytest.raises(InvalidInputError, match="rise"):
        list(classify_segments(model, [long_series(20)], [5, 5]))
