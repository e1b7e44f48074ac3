"""Changing the size of a state: compression with its error, expansion that keeps the function, growth, and planning."""

from statetrack.analysis.state_size.answers import minimise_model
from statetrack.analysis.state_size.balanced import Reduced, System, balanced_truncation, hankel_values, measured_error
from statetrack.analysis.state_size.compression import Compressed, compress

__all__ = [
    "Compressed",
    "Reduced",
    "System",
    "balanced_truncation",
    "compress",
    "hankel_values",
    "measured_error",
    "minimise_model",
]
