"""Checks of what a user hands to a task."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks.base import Task, tasks
from statetrack.tasks.layout import IntArray


def whole_number(name: str, value: object, low: int) -> int:
    """``value`` as an int. Raises ``InvalidInputError`` unless it is a whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InvalidInputError(f"{name} must be a whole number of at least {low}, got {value!r}.")
    return int(value)


def share(name: str, value: object) -> float:
    """``value`` as a float. Raises ``InvalidInputError`` unless it is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 <= value <= 1:
        raise InvalidInputError(f"{name} must be a number from 0 to 1, got {value!r}.")
    return float(value)


def truth_value(name: str, value: object) -> bool:
    """``value`` as a bool. Raises ``InvalidInputError`` for anything but true and false."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """``value`` if it is one of ``allowed``. Raises ``UnknownNameError`` that names the nearest of them."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise UnknownNameError(name, str(value), allowed)
    return value


def task_title(task: Task) -> str:
    """What messages call a task: its public name (the name of its class if it has none) and its format if it has one."""
    name = next((name for name in tasks if tasks.get(name) is type(task)), type(task).__name__)
    format = getattr(task, "format", None)
    return f"task {name!r}" + (f" in format {format!r}" if format else "")


def row_lengths(task: Task, batch_size: int, length: int | np.ndarray) -> IntArray:
    """The length asked for each row, ``(batch_size,)`` int64.

    Raises:
        InvalidInputError: a batch without rows, lengths that are not whole numbers or of another number than rows, or a length
            below ``task.min_length``.
    """
    batch_size = whole_number("batch_size", batch_size, 1)
    lengths = np.asarray(length)
    if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (batch_size,)):
        given = repr(length) if lengths.ndim == 0 else f"an array of shape {lengths.shape} and type {lengths.dtype}"
        raise InvalidInputError(f"length must be one whole number or {batch_size} of them, one for each row; got {given}.")
    shortest = int(lengths.min())
    if shortest < task.min_length:
        allowed = f"the smallest it can make is {task.min_length}"
        raise InvalidInputError(f"Length {shortest} was asked of {task_title(task)}, but {allowed}.")
    return np.array(np.broadcast_to(lengths, (batch_size,)), dtype=np.int64)
