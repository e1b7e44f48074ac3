"""Whether the kernels can run here, found out without importing Triton unless it has to be."""

from __future__ import annotations

import importlib.util
import os

TRITON_MISSING = importlib.util.find_spec("triton") is None

STATE_LIMIT = 1024
"""Largest state of a one-hot scan: one program holds it in registers."""


def interpreted() -> bool:
    """Whether kernels run in Python on the CPU (``TRITON_INTERPRET=1``), for tests."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on")


def device_obstacle(device: str) -> str | None:
    """Why kernels cannot run on tensors of a device type, or None."""
    if TRITON_MISSING:
        return "triton is not installed (pip install 'statetrack[gpu]')"
    if device == "cuda" or (device == "cpu" and interpreted()):
        return None
    hint = ", and Triton's interpreter is off (TRITON_INTERPRET=1 before Python starts)" if device == "cpu" else ""
    return f"the tensors are on {device!r}{hint}"
