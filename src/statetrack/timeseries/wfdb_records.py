"""Records of PhysioNet in the WFDB format (``.hea``, ``.dat``, ``.atr``), through the package ``wfdb``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError, MissingDataError, MissingExtraError
from statetrack.timeseries.panel import Series


class Annotations(NamedTuple):
    """Marks along a record, in order of time.

    Attributes:
        positions: ``(n,)`` steps.
        symbols: ``(n,)`` what is there, such as ``"N"`` for a normal beat or ``"+"`` for a change of rhythm.
        notes: ``(n,)`` text beside, such as ``"(AFIB"``.
    """

    positions: npt.NDArray[np.int64]
    symbols: npt.NDArray[np.str_]
    notes: npt.NDArray[np.str_]


class Record(NamedTuple):
    """A record.

    Attributes:
        name: of the record.
        signal: ``(T, C)`` in physical units; NaN where the recording has a gap.
        rate: steps per second.
        channels: ``C`` names.
        units: ``C`` physical units.
        annotations: None where none were asked for.
    """

    name: str
    signal: Series
    rate: float
    channels: tuple[str, ...]
    units: tuple[str, ...]
    annotations: Annotations | None


def read_wfdb(path: str | Path, *, annotator: str | None = None) -> Record:
    """Read a record of this machine; nothing is fetched from elsewhere.

    Args:
        path: of the record, with or without the ending ``.hea``.
        annotator: ending of the file of annotations, such as ``"atr"``; None reads none.

    Raises:
        MissingExtraError: the package ``wfdb`` is missing.
        MissingDataError: a file of the record is not there.
        InvalidInputError: a file is damaged.
    """
    try:
        import wfdb
    except ImportError as error:
        raise MissingExtraError("wfdb", "wfdb", "reading WFDB records") from error
    path = Path(path)
    path = path.with_suffix("") if path.suffix == ".hea" else path
    needed = [path.with_name(f"{path.name}.{ending}") for ending in ("hea", *([annotator] if annotator else []))]
    for file in needed:
        if not file.is_file():
            raise MissingDataError(f"{file} does not exist.")
    try:
        found = wfdb.rdrecord(str(path.resolve()))
        marks = wfdb.rdann(str(path.resolve()), annotator) if annotator else None
    except FileNotFoundError as error:
        raise MissingDataError(f"The record {path} needs {error.filename}, which does not exist.") from error
    except Exception as error:  # the package has no errors of its own: a damaged file ends in whatever its parsing meets
        raise InvalidInputError(f"The record {path} is damaged: {type(error).__name__}: {error}.") from error
    if found.p_signal is None:
        raise InvalidInputError(f"The record {path} has no signals.")
    annotations = None
    if marks is not None:
        notes = [note.rstrip("\0") for note in marks.aux_note]
        annotations = Annotations(np.asarray(marks.sample, dtype=np.int64), np.array(marks.symbol), np.array(notes))
    signal = np.ascontiguousarray(found.p_signal, dtype=np.float32)
    return Record(path.name, signal, float(found.fs), tuple(found.sig_name), tuple(found.units), annotations)
