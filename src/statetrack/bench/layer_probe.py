"""One training step in a process of its own; ``python -m statetrack.bench.layer_probe SETTINGS_AS_JSON`` prints its memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from statetrack.bench.layer_cases import by_name, training_step
from statetrack.bench.machine import peak_bytes
from statetrack.bench.runner import build


def probe(name: str, width: int, batch: int, length: int) -> dict[str, Any]:
    """Peak memory before and after a step; a short step first brings in kernels and libraries."""
    runner = build(by_name(name), width)
    x = torch.randn(batch, length, width, generator=torch.Generator().manual_seed(0))
    training_step(runner, x[:1, :8])
    before = peak_bytes()
    training_step(runner, x)
    return {"before_bytes": before, "peak_bytes": peak_bytes()}


if __name__ == "__main__":
    print(json.dumps(probe(**json.loads(sys.argv[1]))))
