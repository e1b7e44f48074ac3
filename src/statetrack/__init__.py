"""statetrack: sequence layers that track state."""

__version__ = "0.1.0"
