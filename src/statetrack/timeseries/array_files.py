"""Sets as NumPy archives and as UCR text tables.

A ``.npz`` file holds one of these, with time before channels:

    X, y, n_train                        arrays (n, T, C) or (n, T) and (n,); the first ``n_train`` cases are the training part
    X_train, y_train, X_test, y_test     the same in two parts
    signal, offset, label                series of any lengths end to end: case i is signal[offset[i] : offset[i + 1]]

A text table (``.txt``, ``.tsv``, also compressed with xz) has one series per line, the label first.
"""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from statetrack.errors import InvalidInputError, MissingDataError
from statetrack.timeseries.panel import Panel, as_panel
from statetrack.timeseries.ts_file import Cases


def read_npz(path: str | Path) -> tuple[Cases, Cases | None]:
    """Training and test part of a ``.npz`` file; the second is None where the file makes no difference.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: it holds something else than this module describes.
    """
    path = Path(path)
    arrays = _arrays(path)
    if {"X_train", "y_train", "X_test", "y_test"} <= arrays.keys():
        return _cases(path, arrays["X_train"], arrays["y_train"]), _cases(path, arrays["X_test"], arrays["y_test"])
    if {"X", "y"} <= arrays.keys():
        cases = _cases(path, arrays["X"], arrays["y"])
        if "n_train" not in arrays:
            return cases, None
        border, n = arrays["n_train"], len(cases.series)
        if border.size != 1 or border.dtype.kind not in "iu" or not 0 < int(border) < n:
            raise InvalidInputError(f"{path}: n_train must be a whole number between 1 and {n - 1}; got {border!r}.")
        k = int(border)
        return Cases(cases.series[:k], cases.labels[:k]), Cases(cases.series[k:], cases.labels[k:])
    if {"signal", "offset", "label"} <= arrays.keys():
        return _end_to_end(path, arrays), None
    raise InvalidInputError(
        f"{path} needs the arrays X and y, or X_train, y_train, X_test and y_test, or signal, offset and label; "
        f"it holds {', '.join(sorted(arrays)) or 'nothing'}."
    )


def read_table(path: str | Path) -> Cases:
    """Series of a text table.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: a value is no number; the message names the line.
    """
    path = Path(path)
    try:
        with lzma.open(path, "rt", encoding="utf8") if path.suffix == ".xz" else path.open(encoding="utf8") as file:
            lines = [(i, line.replace(",", " ").split()) for i, line in enumerate(file, 1) if line.strip()]
    except FileNotFoundError as error:
        raise MissingDataError(f"{path} does not exist.") from error
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}.") from error
    series, labels = [], []
    for i, words in lines:
        try:
            values = np.array([float(word) for word in words])
        except ValueError as error:
            raise InvalidInputError(f"{path}, line {i}: {error}.") from None
        if len(values) < 2 or np.isinf(values).any() or np.isnan(values[0]):
            raise InvalidInputError(f"{path}, line {i}: expected a label and finite values, NaN where one is missing.")
        series.append(values[1:])
        labels.append(f"{values[0]:g}")
    if not series:
        raise InvalidInputError(f"{path} is empty.")
    return Cases(as_panel(series), np.array(labels))


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise MissingDataError(f"{path} does not exist.") from error
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"{path} is no archive of plain arrays: {error}.") from error


def _cases(path: Path, X: Any, y: Any) -> Cases:
    if X.ndim not in (2, 3) or y.shape != (len(X),):
        raise InvalidInputError(f"{path}: series need shape (n, T, C) or (n, T) and labels (n,); got {X.shape} and {y.shape}.")
    return Cases(as_panel(X.swapaxes(1, 2) if X.ndim == 3 else X), y.astype(str))


def _end_to_end(path: Path, arrays: dict[str, Any]) -> Cases:
    signal, offset, label = arrays["signal"], arrays["offset"], arrays["label"]
    n = len(label)
    fits = signal.ndim == 1 and offset.shape == (n + 1,) and offset.dtype.kind in "iu"
    if not fits or offset[0] != 0 or offset[-1] != len(signal) or (np.diff(offset) < 1).any():
        raise InvalidInputError(
            f"{path}: offset must rise from 0 to the number of values ({signal.size}) in {n + 1} entries, one more than labels."
        )
    series: Panel = [part.astype(np.float32)[:, None] for part in np.split(signal, offset[1:-1])]
    return Cases(series, label.astype(str))
