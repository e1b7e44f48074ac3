"""``statetrack bench series``: what reading one long series takes, against its length, and whether a stream ends as the whole.

Three ways: a training step that holds everything (``full``), one that holds a chunk at a time and is as exact (``carries``), and
scores in blocks without gradients (``stream``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import torch

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.series_probe import network, signal
from statetrack.errors import RunError
from statetrack.timeseries.network import SeriesNet

LAYERS = ("linoss", "flash-pd-ssm")
MODES = ("full", "carries", "stream")
_LENGTHS = tuple(1024 * 2**k for k in range(9))
_QUICK_LENGTHS = (512, 1024, 2048)
_RECORD, _QUICK_RECORD = 650_000, 5_000
_BLOCK = 360
"""Steps of a block of the stream: a second of the usual ECG."""
_SINGLE = 10_000
"""Steps of the record's beginning that are also read one at a time."""
_TOLERANCE = 1e-5
_MIB = 1 << 20


def measure(quick: bool, note: Note) -> Report:
    """Every layer, way and length, and the check of the stream; a layer whose stream differs is not reported."""
    settings = {"d_model": 32, "n_layers": 2, "chunk_size": 256 if quick else 4096}
    record = _QUICK_RECORD if quick else _RECORD
    report: Report = {"settings": {**settings, "record": record, "block": _BLOCK}, "entries": [], "streams": [], "refused": []}
    for layer in LAYERS:
        note(f"{layer}: a stream of {record:,} steps against the whole")
        found = compare_stream(layer, record, d_model=settings["d_model"], n_layers=settings["n_layers"])
        report["streams"].append(found)
        worst = max(value for name, value in found.items() if name.endswith("difference"))
        if not worst <= _TOLERANCE:
            report["refused"].append(f"{layer}: the stream is {worst:.1e} away from the whole series")
            continue
        for mode in MODES:
            note(f"{layer}: {mode}")
            for entry in _run_probe({"layer": layer, "mode": mode, "lengths": _QUICK_LENGTHS if quick else _LENGTHS, **settings}):
                entry["step_bytes"] = max(0, entry["peak_bytes"] - entry["before_bytes"])
                report["entries"].append({"layer": layer, "mode": mode, **entry})
    report["fits"] = [
        {"layer": layer, "mode": mode, **_fit([e for e in report["entries"] if (e["layer"], e["mode"]) == (layer, mode)])}
        for layer in LAYERS
        for mode in MODES
        if any(entry["layer"] == layer for entry in report["entries"])
    ]
    return report


def compare_stream(layer: str, record: int, *, d_model: int, n_layers: int) -> dict[str, Any]:
    """How far a record in blocks is from all of it in one pass, and its beginning in single steps from that in one pass.

    ``difference`` is the largest of the scores in the end, ``feature_difference`` the largest of the features at any step,
    relative to the largest feature.
    """
    net, x = network(layer, d_model, n_layers), signal(record)
    single = min(_SINGLE, record)
    with torch.no_grad():
        blocks, steps = _apart(net, x, _BLOCK), _apart(net, x[:, :single], 1)
    found: dict[str, Any] = {"layer": layer, "steps": record, "difference": blocks[0], "feature_difference": blocks[1]}
    return {**found, "single_steps": single, "single_difference": steps[0], "single_feature_difference": steps[1]}


def _apart(net: SeriesNet, x: torch.Tensor, block: int) -> tuple[float, float]:
    whole, _ = net.features(x, net.start(1).states)
    carry, worst = net.start(1), 0.0
    for start in range(0, x.shape[1], block):
        piece = x[:, start : start + block]
        features, _ = net.features(piece, carry.states)
        worst = max(worst, float((features - whole[:, start : start + block]).abs().max()))
        carry = net.advance(piece, carry)
    return float((net.read(carry) - net(x)).abs().max()), worst / float(whole.abs().max())


def _run_probe(settings: dict[str, Any]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "statetrack.bench.series_probe", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise RunError(f"{settings['layer']}, {settings['mode']} could not be measured: {last[0]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _fit(entries: list[dict[str, Any]]) -> dict[str, float]:
    """Least squares in the length: microseconds and bytes per step, and r² of the time."""
    lengths, seconds, taken = (np.array([e[key] for e in entries], dtype=float) for key in ("L", "cpu_seconds", "step_bytes"))
    slope, intercept = np.polyfit(lengths, seconds, 1)
    rest = seconds - (intercept + slope * lengths)
    r2 = 1 - (rest**2).sum() / ((seconds - seconds.mean()) ** 2).sum()
    return {"us_per_step": float(1e6 * slope), "time_r2": float(r2), "bytes_per_step": float(np.polyfit(lengths, taken, 1)[0])}


def tables(report: Report) -> list[Any]:
    """Time and memory by length, and the streams."""
    from rich.table import Table

    table = Table(title="One series, CPU seconds and MiB over what the process held before", title_justify="left", box=None)
    for column in ("layer", "way", "L", "CPU s", "MiB"):
        table.add_column(column, justify="left" if column in ("layer", "way") else "right")
    for e in report["entries"]:
        table.add_row(e["layer"], e["mode"], f"{e['L']:,}", f"{e['cpu_seconds']:.2f}", f"{e['step_bytes'] / _MIB:.0f}")
    streams = Table(title="Stream against the whole: scores, features", title_justify="left", box=None)
    for column in ("layer", "steps", "in blocks", "steps one at a time", "one at a time"):
        streams.add_column(column, justify="right")
    for s in report["streams"]:
        blocks, single = (f"{s[f'{way}difference']:.1e}, {s[f'{way}feature_difference']:.1e}" for way in ("", "single_"))
        streams.add_row(s["layer"], f"{s['steps']:,}", blocks, f"{s['single_steps']:,}", single)
    return [table, streams]


def figure(report: Report) -> Any:
    """Time and memory against length, both axes logarithmic."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(8, 3.6), layout="constrained")
    colours = dict(zip(MODES, ("#5b6570", "#0072b2", "#d55e00"), strict=True))
    for axes, key, scale, title in (
        (drawn.add_subplot(1, 2, 1), "cpu_seconds", 1.0, "CPU seconds"),
        (drawn.add_subplot(1, 2, 2), "step_bytes", 1 / _MIB, "MiB"),
    ):
        for layer, style in zip(LAYERS, ("o-", "s--"), strict=True):
            for mode in MODES:
                kept = [e for e in report["entries"] if (e["layer"], e["mode"]) == (layer, mode) and e[key] > 0]
                if kept:
                    values = [scale * e[key] for e in kept]
                    axes.plot(
                        [e["L"] for e in kept], values, style, color=colours[mode], markersize=3.5, label=f"{layer}, {mode}"
                    )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        lengths = sorted({e["L"] for e in report["entries"]})[::2]
        axes.set_xticks(lengths, [f"{length // 1024}k" if length >= 1024 else str(length) for length in lengths])
        axes.set_xlabel("steps of the series")
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(axis="y", color="#d8dce1", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    drawn.axes[0].legend(frameon=False, fontsize=8)
    return drawn


benchmarks.register("series")(Benchmark(measure, tables, figure))
