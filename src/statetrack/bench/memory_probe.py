"""One training step in a process of its own; ``python -m statetrack.bench.memory_probe SETTINGS_AS_JSON`` prints its memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from statetrack.bench.machine import peak_bytes
from statetrack.layers.flash_pd_ssm import FlashPDSSM


def training_step(layer: FlashPDSSM, rows: int, length: int) -> None:
    """Forward and backward of a batch of noise."""
    x = torch.randn(rows, length, layer.d_model, generator=torch.Generator().manual_seed(0))
    y, _ = layer(x)
    y.square().mean().backward()
    layer.zero_grad()


def probe(rows: int, length: int, d_model: int, d_state: int, dictionary_size: int) -> dict[str, Any]:
    """Peak memory before and after a step; a short step first brings in kernels and libraries."""
    layer = FlashPDSSM(d_model, d_state=d_state, dictionary_size=dictionary_size)
    training_step(layer, 1, 8)
    before = peak_bytes()
    training_step(layer, rows, length)
    return {"L": length, "before_bytes": before, "peak_bytes": peak_bytes()}


if __name__ == "__main__":
    print(json.dumps(probe(**json.loads(sys.argv[1]))))
