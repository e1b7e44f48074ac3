"""Transition structures: families of matrices closed under multiplication."""

from statetrack.structures.base import Structure
from statetrack.structures.dense import BlockDiagonal, Dense
from statetrack.structures.diagonal import Diagonal
from statetrack.structures.low_rank import DiagonalPlusLowRank
from statetrack.structures.mixed import MixedOneHot
from statetrack.structures.one_hot import ColumnOneHot, RowOneHot
from statetrack.structures.orientation import Orientation
from statetrack.structures.routed import RoutedOneHot

__all__ = [
    "BlockDiagonal",
    "ColumnOneHot",
    "Dense",
    "Diagonal",
    "DiagonalPlusLowRank",
    "MixedOneHot",
    "Orientation",
    "RoutedOneHot",
    "RowOneHot",
    "Structure",
]
