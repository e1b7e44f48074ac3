"""The errors that reach a user. Each says what was given, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StateTrackError(Exception):
    """Base of every error the library raises on purpose; the command line prints it in a line or two."""


class InvalidInputError(StateTrackError, ValueError):
    """An argument does not fit: wrong shape, range, dtype or combination."""


class UnknownNameError(StateTrackError, LookupError):
    """A layer, task, group, option or recipe that does not exist; names the nearest ones that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"Known: {', '.join(names)}."
        super().__init__(f"Unknown {kind} {name!r}. {hint}")
        self.kind, self.name, self.suggestions = kind, name, tuple(close)


class MissingExtraError(StateTrackError, ImportError):
    """An optional package is absent; the message names what to install."""

    def __init__(self, package: str, extra: str | None, purpose: str) -> None:
        target = f"statetrack[{extra}]" if extra else package
        super().__init__(f"{purpose} needs the package {package!r}. Install it with: pip install '{target}'")


class MissingDataError(StateTrackError, FileNotFoundError):
    """Data that the library does not bring along; the message says where to get them and where to put them."""


class BackendError(StateTrackError, RuntimeError):
    """A backend was asked for that cannot run here; the message names the missing piece."""


class RunError(StateTrackError, RuntimeError):
    """A run folder cannot be read, written or continued."""


class NumericalError(StateTrackError, ArithmeticError):
    """NaN or infinity where training needs numbers."""
