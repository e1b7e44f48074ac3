"""The table of laws, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable

from statetrack.testing.case import Case

Law = Callable[[Case], None]
LAWS: dict[str, Law] = {}


def law(check: Law) -> Law:
    """Enter a check under its function's name."""
    LAWS[check.__name__] = check
    return check
