"""The ``statetrack`` command: parse, call, print."""

from statetrack.cli.main import main

__all__ = ["main"]
