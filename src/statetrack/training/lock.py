"""One trainer per run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from statetrack.errors import RunError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process; the system lets go of it when the process ends, however it ends.

    Raises:
        RunError: another process is training in it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks outside POSIX
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"{folder} is being trained by another process. Wait for it, or stop it first.") from error
        yield
