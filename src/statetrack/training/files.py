"""Writing files so that a crash, a full disk or a second writer never leaves half of one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from statetrack.errors import RunError


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically. Raises ``RunError`` when the disk refuses."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically. Raises ``RunError`` when the disk refuses."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf8") as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise RunError(f"Cannot write {path}: {error.strerror}.") from error


def read_json(path: Path) -> Any:
    """Read JSON. Raises ``RunError`` when the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError as error:
        raise RunError(f"{path} does not exist.") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}.") from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a temporary folder beside ``path``; it takes the name ``path`` only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
