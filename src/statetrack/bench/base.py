"""What a benchmark is: a measurement that gives JSON, and the ways to show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statetrack.registry import Registry

Report = dict[str, Any]
"""What was measured, ready for JSON. ``refused`` lists what failed its check and is therefore not reported."""

Note = Callable[[str], None]
"""Called with what is going on."""


@dataclass(frozen=True)
class Benchmark:
    """One entry of ``statetrack bench``.

    Attributes:
        measure: ``(quick, note, **sizes)`` to a report.
        tables: rich tables of a report.
        figure: a matplotlib figure of a report.
        sizes: names of the sizes that it can be given.
    """

    measure: Callable[..., Report]
    tables: Callable[[Report], list[Any]]
    figure: Callable[[Report], Any]
    sizes: tuple[str, ...] = ()


benchmarks: Registry[Benchmark] = Registry("benchmark", "statetrack.bench")
"""All benchmarks by name; a module of this package adds one with ``benchmarks.register(name)(Benchmark(...))``."""
