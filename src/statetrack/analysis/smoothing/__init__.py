"""Over-smoothing: how alike tokens become, by depth, and what the contraction theorem allows one layer."""

from statetrack.analysis.smoothing.bound import (
    Contraction,
    SmoothingBound,
    channel_diversity,
    contraction_bound,
    smoothing_bound,
)
from statetrack.analysis.smoothing.depth import DepthSmoothing, smoothing_by_depth
from statetrack.analysis.smoothing.sharpness import Sharpness, sharpness

__all__ = [
    "Contraction",
    "DepthSmoothing",
    "Sharpness",
    "SmoothingBound",
    "channel_diversity",
    "contraction_bound",
    "sharpness",
    "smoothing_bound",
    "smoothing_by_depth",
]
