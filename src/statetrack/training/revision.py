"""Which code a run was made with."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path

import statetrack


@lru_cache(maxsize=1)
def revision() -> str:
    """Version and, in a git checkout of the library, the commit (``+`` marks local changes in the source)."""
    source = Path(statetrack.__file__).parent
    version = f"statetrack {statetrack.__version__}"
    try:
        commit = _git(source, "log", "-1", "--format=%h", "--", ".")
        changed = _git(source, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} {commit}{'+' if changed else ''}" if commit else version


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
