"""Files of the UEA and UCR archives with the ending ``.ts``: a head of ``@`` lines, then one series per line.

    @dimensions 2                  number of channels
    @classLabel true a b           the labels
    @data
    0.1,0.2,0.3:5,?,7:a            channels apart by a colon, values by a comma, ? is missing, the label last

What a file says of itself is checked: channels, lengths, labels, missing values. Source: UEA archive (arXiv 1811.00075).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError, MissingDataError
from statetrack.timeseries.panel import Panel, Series

_FLAGS = {"timestamps", "missing", "univariate", "equallength"}
_NUMBERS = {"dimensions": "dimensions", "dimension": "dimensions", "serieslength": "serieslength"}
_MISSING = {"?", "nan"}


class Cases(NamedTuple):
    """Labelled series.

    Attributes:
        series: each ``(T, C)``; NaN marks a missing value.
        labels: ``(n,)`` words, or float64 numbers in a regression set.
    """

    series: Panel
    labels: npt.NDArray[np.str_] | npt.NDArray[np.float64]

    @property
    def channels_first(self) -> Panel:
        """Each ``(C, T)``, as estimators take them."""
        return [series.T for series in self.series]


class _Head(NamedTuple):
    """What stands above ``@data``: ``labels`` is None where labels are numbers."""

    flags: dict[str, bool]
    numbers: dict[str, int]
    labels: tuple[str, ...] | None


class _Line(NamedTuple):
    path: Path
    number: int
    text: str

    def error(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self.path}, line {self.number}: {what}")


def read_ts(path: str | Path) -> Cases:
    """Labelled series of a ``.ts`` file.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: the file contradicts itself or the format; the message names the line.
    """
    path = Path(path)
    try:
        # Comments hold bytes of several encodings; a byte that is no UTF-8 in a number is refused as a number.
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise MissingDataError(f"{path} cannot be read: {error.strerror}.") from error
    lines = [_Line(path, i, line.strip()) for i, line in enumerate(text.splitlines(), 1)]
    lines = [line for line in lines if line.text and not line.text.startswith("#")]
    head, data = _head(path, lines)
    if not data:
        raise InvalidInputError(f"{path} has no series after @data.")
    series: Panel = []
    labels: list[str | float] = []
    for line in data:
        *channels, label = line.text.split(":")
        series.append(_series(line, channels, head, series[0] if series else None))
        labels.append(_label(line, label.strip(), head))
    return Cases(series, np.array(labels))


def _head(path: Path, lines: list[_Line]) -> tuple[_Head, list[_Line]]:
    flags: dict[str, bool] = {}
    numbers: dict[str, int] = {}
    labels: tuple[str, ...] | None = ()
    for i, line in enumerate(lines):
        if not line.text.startswith("@"):
            raise line.error("a line before @data must begin with @ or #.")
        key, *values = line.text[1:].split()
        key = key.lower()
        if key == "data":
            if labels == ():
                raise line.error("no @classLabel or @targetLabel line says how series are labelled.")
            if flags.get("timestamps"):
                raise line.error("time stamps are not supported; write the values alone and set @timeStamps false.")
            return _Head(flags, numbers, labels), lines[i + 1 :]
        if key in _FLAGS:
            flags[key] = _flag(line, values)
        elif key in _NUMBERS:
            numbers[_NUMBERS[key]] = _whole(line, values)
        elif key == "classlabel":
            if not _flag(line, values[:1]) or len(values) < 2:
                raise line.error("@classLabel needs true and the labels.")
            labels = tuple(values[1:])
        elif key == "targetlabel":
            if not _flag(line, values):
                raise line.error("@targetLabel needs true.")
            labels = None
        elif key != "problemname":
            raise line.error(f"@{key} is no line of this format.")
    raise InvalidInputError(f"{path} has no @data line.")


def _flag(line: _Line, values: list[str]) -> bool:
    if len(values) != 1 or values[0].lower() not in ("true", "false"):
        raise line.error(f"expected true or false; got {' '.join(values)!r}.")
    return values[0].lower() == "true"


def _whole(line: _Line, values: list[str]) -> int:
    if len(values) != 1 or not values[0].isdecimal() or int(values[0]) < 1:
        raise line.error(f"expected a whole number of at least 1; got {' '.join(values)!r}.")
    return int(values[0])


def _series(line: _Line, channels: list[str], head: _Head, first: Series | None) -> Series:
    expected = (
        1 if head.flags.get("univariate") else head.numbers.get("dimensions", first.shape[1] if first is not None else None)
    )
    if not channels or (expected is not None and len(channels) != expected):
        raise line.error(f"expected {expected or 'some'} channels and a label; got {len(channels)} channels.")
    rows = [_values(line, channel, head) for channel in channels]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise line.error(f"the channels have different lengths: {', '.join(map(str, lengths))}.")
    asked = head.numbers.get("serieslength")
    if asked is None and head.flags.get("equallength") and first is not None:
        asked = len(first)
    if asked is not None and head.flags.get("equallength", True) and lengths[0] != asked:
        raise line.error(f"expected {asked} steps; got {lengths[0]}.")
    return np.ascontiguousarray(np.stack(rows, axis=1))


def _values(line: _Line, channel: str, head: _Head) -> npt.NDArray[np.float32]:
    words = [word.strip() for word in channel.split(",")]
    absent = np.array([word.lower() in _MISSING for word in words])
    if absent.any() and not head.flags.get("missing", True):
        raise line.error("a value is missing, but the file says @missing false.")
    found = np.full(len(words), np.nan)
    for i in np.flatnonzero(~absent):
        try:
            found[i] = float(words[i])
        except ValueError:
            raise line.error(f"{words[i]!r} is no number.") from None
    if not (np.abs(found[~absent]) <= np.finfo(np.float32).max).all():
        raise line.error("a value is infinite or too large for float32.")
    return found.astype(np.float32)


def _label(line: _Line, label: str, head: _Head) -> str | float:
    if head.labels is not None:
        if label not in head.labels:
            raise line.error(f"the label {label!r} is not among {', '.join(head.labels)}.")
        return label
    try:
        return float(label)
    except ValueError:
        raise line.error(f"the label {label!r} is no number.") from None
