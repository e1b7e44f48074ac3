"""Measurements that need a process of their own: memory that one contender has taken cannot be told from another's afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch

from statetrack.errors import RunError


def run_probe(module: str, settings: Mapping[str, Any], what: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What ``python -m module SETTINGS_AS_JSON`` prints, as JSON, on as many threads as here.

    Args:
        module: dotted name.
        settings: handed to it.
        what: is measured, for the message of an error.
        variables: of the environment, besides those here.

    Raises:
        RunError: the process failed; its last line says why.
    """
    threads = str(torch.get_num_threads())
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(settings)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": threads, **(variables or {})},
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise RunError(f"{what} could not be measured: {last[0]}")
    return json.loads(done.stdout)
