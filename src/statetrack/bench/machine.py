"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import statetrack


def machine() -> dict[str, Any]:
    """Processor, threads and versions, and how busy the machine was (jobs that want to run, averaged over a minute)."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "statetrack": statetrack.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "numba", "numpy")},
        },
    }


def cpu_model() -> str:
    """The name of the processor."""
    found = _field("/proc/cpuinfo", "model name")
    return found or platform.processor() or platform.machine()


def available_bytes() -> float:
    """Memory that new work can have; infinite where the system does not say."""
    found = _field("/proc/meminfo", "MemAvailable")
    return 1024 * int(found.split()[0]) if found else float("inf")


def peak_bytes() -> int:
    """The most memory this process has held since it started.

    Linux keeps two numbers. ``ru_maxrss`` starts with what the *parent* held when it launched the process, so that of the process
    itself is read from ``/proc``.
    """
    found = _field("/proc/self/status", "VmHWM")
    if found:
        return 1024 * int(found.split()[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
