"""One way to read long series in a process of its own; ``python -m statetrack.bench.series_probe SETTINGS_AS_JSON`` prints it."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from torch import Tensor

from statetrack.bench.machine import peak_bytes
from statetrack.models import ModelConfig
from statetrack.timeseries.backprop import backpropagate, chunks
from statetrack.timeseries.network import SeriesNet

STATES: dict[str, dict[str, Any]] = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}}
_OUTPUTS = 4
_WARM = 64


def network(layer: str, d_model: int, n_layers: int) -> SeriesNet:
    """A network for one channel, the same each time."""
    config = ModelConfig(
        d_model=d_model, n_layers=n_layers, norm="pre", residual=True, feedforward=0, dropout=0.0, layer=STATES.get(layer, {})
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SeriesNet(layer, 1, _OUTPUTS, config)


def signal(length: int) -> Tensor:
    """``(1, length, 1)``: beats of uneven distance over a slow wave and noise."""
    generator = torch.Generator().manual_seed(1)
    t = torch.arange(length)
    beat = torch.exp(-(((t % 293) - 40) ** 2) / 50.0) * (1 + 0.3 * torch.sin(t / 4099.0))
    return (beat + 0.2 * torch.sin(t / 700.0) + 0.05 * torch.randn(length, generator=generator)).reshape(1, length, 1)


def read(net: SeriesNet, mode: str, length: int, chunk_size: int) -> Tensor:
    """A training step (``"full"`` or ``"carries"``) or scores in blocks (``"stream"``) for one series."""
    x, lengths = signal(length), torch.tensor([length])
    if mode != "stream":
        _, scores = backpropagate(net, x, lengths, _loss, gradient=mode, chunk_size=chunk_size)  # type: ignore[arg-type]
        net.zero_grad()
        return scores
    with torch.no_grad():
        carry = net.start(1)
        for chunk in chunks(x, lengths, chunk_size):
            carry = net.advance(chunk.x, carry)
        return net.read(carry)


def _loss(scores: Tensor) -> Tensor:
    return scores.square().sum()


def probe(layer: str, mode: str, lengths: list[int], d_model: int, n_layers: int, chunk_size: int) -> list[dict[str, Any]]:
    """CPU seconds and peak memory at rising lengths; a short series first brings in kernels and libraries.

    Memory rises with the length, so the most that was held so far is what the last length took.
    """
    net = network(layer, d_model, n_layers)
    for length in (_WARM, chunk_size + _WARM):
        read(net, mode, length, chunk_size if length > chunk_size else _WARM)
    before, entries = peak_bytes(), []
    for length in lengths:
        began = time.process_time()
        read(net, mode, length, chunk_size)
        seconds = time.process_time() - began
        entries.append({"L": length, "cpu_seconds": seconds, "before_bytes": before, "peak_bytes": peak_bytes()})
    return entries


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(probe(**json.loads(sys.argv[1]))))
