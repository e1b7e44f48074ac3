"""The laws every layer keeps. A law is a function of a ``Case`` that raises ``AssertionError`` where the layer breaks it."""

from statetrack.testing.laws import compilation, modules, numerics, packing, recurrence, shapes, streaming
from statetrack.testing.laws.registry import LAWS

__all__ = ["LAWS", "compilation", "modules", "numerics", "packing", "recurrence", "shapes", "streaming"]
