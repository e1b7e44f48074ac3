"""How a command can end."""

from __future__ import annotations

from statetrack.errors import StateTrackError

FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class RunFailed(StateTrackError):
    """A run that had begun could not go on."""


class Stopped(Exception):
    """The user stopped a run; the message says how to continue it."""
