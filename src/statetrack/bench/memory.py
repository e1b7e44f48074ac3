"""``statetrack bench memory``: what a training step of Flash PD-SSM takes, against length."""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.probe import run_probe

_ROWS, _D_MODEL, _D_STATE, _DICTIONARY = 4, 128, 128, 32
_LENGTHS = (2048, 4096, 8192, 16384)
_QUICK_LENGTHS = (512, 1024, 2048)
_GB = 1e9


def measure(quick: bool, note: Note) -> Report:
    """Peak memory of a step at several lengths, each in a fresh process, and a straight line through them."""
    return measure_lengths(_QUICK_LENGTHS if quick else _LENGTHS, note)


def measure_lengths(
    lengths: tuple[int, ...],
    note: Note,
    *,
    rows: int = _ROWS,
    d_model: int = _D_MODEL,
    d_state: int = _D_STATE,
    dictionary_size: int = _DICTIONARY,
) -> Report:
    """The report for a layer of one head: ``entries`` by length, ``fit`` and ``dense_bytes``."""
    settings = {"rows": rows, "d_model": d_model, "d_state": d_state, "dictionary_size": dictionary_size}
    _run_probe(
        {**settings, "rows": 1, "length": 8}
    )  # Kernels that are not compiled yet are compiled here, so that none of the rest has to.
    entries = []
    for length in lengths:
        note(f"training step of {rows} x {length:,} tokens")
        entry = _run_probe({**settings, "length": length})
        entry["step_bytes"] = entry["peak_bytes"] - entry["before_bytes"]
        entry["bytes_per_state"] = entry["step_bytes"] / (rows * length * d_state)
        entry["dense_bytes"] = 4 * rows * length * d_state**2
        entries.append(entry)
    return {
        "settings": {"layer": "flash-pd-ssm", **settings},
        "entries": entries,
        "fit": _fit(entries, rows * d_state),
        "refused": [],
    }


def _run_probe(settings: dict[str, int]) -> dict[str, Any]:
    return run_probe("statetrack.bench.memory_probe", settings, f"A training step of {settings['length']} tokens")


def _fit(entries: list[dict[str, Any]], states_per_token: int) -> dict[str, float]:
    """Least squares: bytes of a step = intercept + slope x length."""
    lengths, taken = (np.array([entry[key] for entry in entries], dtype=float) for key in ("L", "step_bytes"))
    slope, intercept = np.polyfit(lengths, taken, 1)
    rest = taken - (intercept + slope * lengths)
    r2 = 1 - (rest**2).sum() / ((taken - taken.mean()) ** 2).sum()
    return {"bytes_per_state": float(slope / states_per_token), "intercept_bytes": float(intercept), "r2": float(r2)}


def tables(report: Report) -> list[Any]:
    """Memory by length, beside what a dense transition per token would take."""
    from rich.table import Table

    s = report["settings"]
    shape = f"B = {s['rows']}, d_model = {s['d_model']}, N = {s['d_state']}, K = {s['dictionary_size']}"
    title = f"Memory of a training step of {s['layer']}; {shape}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in ("L", "step, GB", "process, GB", "bytes per token and state", "one dense B x L x N x N float32, GB"):
        table.add_column(column, justify="right")
    for entry in report["entries"]:
        sizes = [f"{entry[key] / _GB:.2f}" for key in ("step_bytes", "peak_bytes")]
        table.add_row(f"{entry['L']:,}", *sizes, f"{entry['bytes_per_state']:.0f}", f"{entry['dense_bytes'] / _GB:.2f}")
    fit = report["fit"]
    line = f"{fit['bytes_per_state']:.1f} bytes per token and state + {fit['intercept_bytes'] / 1e6:.0f} MB"
    table.caption = f"least squares: {line}, r² = {fit['r2']:.5f}"
    table.caption_justify = "left"
    return [table]


def figure(report: Report) -> Any:
    """Memory of a step against length, with the line, and that of dense transitions."""
    from matplotlib.figure import Figure

    lengths = [entry["L"] for entry in report["entries"]]
    drawn = Figure(figsize=(6, 3.6), layout="constrained")
    axes = drawn.add_subplot()
    axes.plot(
        lengths, [entry["dense_bytes"] / _GB for entry in report["entries"]], "--", color="#5b6570", label="one dense tensor"
    )
    axes.plot(
        lengths, [entry["step_bytes"] / _GB for entry in report["entries"]], "o-", color="#0072b2", label="training step, peak"
    )
    axes.set_xlabel("length L")
    axes.set_ylabel("GB")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#d8dce1", linewidth=0.6)
    axes.legend(frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return drawn


benchmarks.register("memory")(Benchmark(measure, tables, figure))
