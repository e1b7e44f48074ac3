"""Table and figure of the layer benchmark."""

from __future__ import annotations

from typing import Any

from statetrack.bench.base import Report

_MIB = 1 << 20
_PARTS = {
    "products": ("matrix products", "#0072b2"),
    "scan": ("our kernels: scan, credit, diagonal", "#d55e00"),
    "rest": ("rest, or not known", "#9aa4ae"),
}

_BLANK = "\N{EN DASH}"
_WHOLE = {"products": 0.0, "scan": 0.0, "rest": 1.0}


def tables(report: Report) -> list[Any]:
    """One row per layer, fastest first; below, what was not run and why."""
    from rich.table import Table
    from rich.text import Text

    title = f"Training step; {title_of(report)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("layer")
    for column in ("seconds", "0.2 to 0.8", "times ours", "memory, MiB", "products / scan / rest, %", "parameters"):
        table.add_column(column, justify="right")
    for entry in report["entries"]:
        seconds = entry["seconds"]
        table.add_row(
            f"{entry['library']}: {entry['name']}",
            f"{seconds['median']:.3f}",
            f"{seconds['low']:.3f} to {seconds['high']:.3f}",
            f"{entry['over_first']['median']:.2f}",
            f"{entry['step_bytes'] / _MIB:,.0f}",
            " / ".join(f"{100 * entry['shares'][part]:.0f}" for part in _PARTS) if entry["shares"] else _BLANK,
            f"{entry['parameters']:,}",
        )
    return [table, Text("\n".join(remarks(report)))]


def title_of(report: Report) -> str:
    """The sizes and what ratios are to."""
    s = report["settings"]
    return f"width {s['width']}, batch {s['batch']}, L = {s['length']:,}; ours: {report['first']}"


def remarks(report: Report) -> list[str]:
    """A line about each layer, and one for each that was not run."""
    found = [f"{entry['library']}: {entry['name']}: {entry['about']}" for entry in report["entries"]]
    return found + [f"{absent['name']} was not run: {absent['reason']}" for absent in report["not_run"]]


def figure(report: Report) -> Any:
    """Bars of seconds, in parts, and of memory."""
    from matplotlib.figure import Figure

    entries = report["entries"][::-1]
    drawn = Figure(figsize=(9, 0.8 + 0.34 * len(entries)), layout="constrained")
    time, memory = drawn.subplots(1, 2, sharey=True)
    names = [f"{entry['library']}: {entry['name']}" for entry in entries]
    left = [0.0] * len(entries)
    for part, (label, colour) in _PARTS.items():
        widths = [entry["seconds"]["median"] * (entry["shares"] or _WHOLE)[part] for entry in entries]
        time.barh(names, widths, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    memory.barh(names, [entry["step_bytes"] / _MIB for entry in entries], color="#009e73")
    time.set_xlabel("seconds per training step")
    memory.set_xlabel("memory of a step, MiB")
    for axes in (time, memory):
        axes.grid(axis="x", color="#d8dce1", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    handles, labels = time.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return drawn
