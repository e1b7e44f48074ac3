"""What the recipes on series compare: our estimator with any layer, and two baselines of aeon on the same parts.

MiniRocket (arXiv 2012.08791) takes series of one length of at least 9: shorter ones get zeros at the end. Nearest neighbour takes
dynamic time warping without a window, on raw values. Baselines see the training part alone and need no validation part.
"""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.timeseries.ts_file import Cases

Baseline = Literal["minirocket", "1nn-dtw"]
BASELINES: tuple[Baseline, ...] = ("minirocket", "1nn-dtw")
_SHORTEST = 9
"""Steps that MiniRocket needs."""


class Parts(NamedTuple):
    """Cases of one run."""

    train: Cases
    validation: Cases
    test: Cases


def compare(method: str, settings: dict[str, Any], parts: Parts, seed: int) -> dict[str, Any]:
    """Train a method on one part and test it on another.

    Args:
        method: a baseline's name, or that of a layer (or several joined by ``|``).
        settings: options of ``StateTrackClassifier``, or of the baseline.
        parts: the cases; no part may be empty.
        seed: of whatever is random.

    Returns:
        Plain data: ``accuracy``, ``macro_f1`` and ``confusion`` (rows: true classes in the order of ``classes``) of the test
        part, ``n_test``, ``cpu_minutes`` of training and test, and for layers ``validation``, ``epochs`` and ``parameters``.

    Raises:
        MissingExtraError: a package is missing.
        InvalidInputError: an empty part.
    """
    for name, part in parts._asdict().items():
        if not part.series:
            raise InvalidInputError(f"The {name} part is empty.")
    more: dict[str, Any] = {}
    began = time.process_time()
    if method in BASELINES:
        predicted = _baseline(method, settings, parts, seed)
    else:
        predicted, more = _layer(method, settings, parts, seed)
    minutes = round((time.process_time() - began) / 60, 3)
    return {**scores(parts.test.labels, predicted), "n_test": len(predicted), **more, "cpu_minutes": minutes}


def scores(truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, Any]:
    """Accuracy, the unweighted mean of the F1 of the classes that occur, and the confusion matrix.

    Example:
        >>> found = scores(np.array(["a", "a", "a", "b"]), np.array(["a", "a", "b", "b"]))
        >>> found["accuracy"], round(found["macro_f1"], 4), found["confusion"]
        (0.75, 0.7333, [[2, 1], [0, 1]])
    """
    classes = np.unique(np.concatenate([truth, predicted]))
    rows, columns = np.searchsorted(classes, truth), np.searchsorted(classes, predicted)
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (rows, columns), 1)
    right = np.diag(confusion)
    f1 = 2 * right / (confusion.sum(0) + confusion.sum(1))
    return {
        "accuracy": float(right.sum() / len(truth)),
        "macro_f1": float(f1.mean()),
        "classes": classes.tolist(),
        "confusion": confusion.tolist(),
    }


def channels_first(cases: Cases) -> list[npt.NDArray[np.float32]]:
    """Series as estimators take them, each ``(C, T)``."""
    return cases.channels_first


def _layer(layer: str, settings: dict[str, Any], parts: Parts, seed: int) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    from statetrack.timeseries import StateTrackClassifier

    model = StateTrackClassifier(layer, random_state=seed, device="cpu", **settings)
    held_out = channels_first(parts.validation), parts.validation.labels
    model.fit(channels_first(parts.train), parts.train.labels, validation=held_out)
    more = {
        "validation": max(record["validation_score"] for record in model.history_),
        "epochs": model.n_iter_,
        "parameters": sum(parameter.numel() for parameter in model.network_.parameters()),
    }
    return model.predict(channels_first(parts.test)), more


def _baseline(method: str, settings: dict[str, Any], parts: Parts, seed: int) -> npt.NDArray[Any]:
    try:
        from aeon.classification.convolution_based import MiniRocketClassifier
        from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
    except ImportError as error:
        raise MissingExtraError("aeon", "baselines", f"the baseline {method}") from error
    train: Any = channels_first(parts.train)
    test: Any = channels_first(parts.test)
    if method == "minirocket":
        longest = max(_SHORTEST, *(series.shape[1] for series in [*train, *test]))
        train, test = _padded(train, longest), _padded(test, longest)
        model = MiniRocketClassifier(random_state=seed, **settings)
    else:
        if len({series.shape for series in [*train, *test]}) == 1:
            train, test = np.stack(train), np.stack(test)
        model = KNeighborsTimeSeriesClassifier(distance="dtw", **settings)
    predicted: npt.NDArray[Any] = model.fit(train, parts.train.labels).predict(test)
    return predicted


def _padded(series: list[npt.NDArray[np.float32]], length: int) -> Any:
    padded = np.zeros((len(series), series[0].shape[0], length), dtype=np.float32)
    for row, each in zip(padded, series, strict=True):
        row[:, : each.shape[1]] = each
    return padded
