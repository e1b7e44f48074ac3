"""The two orientations of a one-hot matrix and what depends on them."""

from __future__ import annotations

from typing import Literal

from statetrack.structures.one_hot import ColumnOneHot, RowOneHot

Orientation = Literal["column", "row"]


def one_hot_class(orientation: Orientation) -> type[ColumnOneHot] | type[RowOneHot]:
    """The one-hot structure of an orientation."""
    return ColumnOneHot if orientation == "column" else RowOneHot


def choice_dim(orientation: Orientation) -> int:
    """The axis of ``(..., row, column)`` scores along which one entry is chosen."""
    return -2 if orientation == "column" else -1
