"""Table and figure of the decode benchmark."""

from __future__ import annotations

from typing import Any

from statetrack.bench.base import Report
from statetrack.bench.layer_report import remarks, title_of


def tables(report: Report) -> list[Any]:
    """One row per layer, fastest first; below, what was not run and why."""
    from rich.table import Table
    from rich.text import Text

    title = f"One token; {title_of(report)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("layer")
    for column in ("µs per token", "0.2 to 0.8", "times ours", "last quarter / first", "state, KiB"):
        table.add_column(column, justify="right")
    for entry in report["entries"]:
        us = entry["us_per_step"]
        table.add_row(
            f"{entry['library']}: {entry['name']}",
            f"{us['median']:.0f}",
            f"{us['low']:.0f} to {us['high']:.0f}",
            f"{entry['over_first']['median']:.2f}",
            f"{entry['late_over_early']:.2f}",
            f"{entry['state_bytes'] / 1024:,.0f}{' and growing' if entry['state_grows'] else ''}",
        )
    return [table, Text("\n".join(remarks(report)))]


def figure(report: Report) -> Any:
    """Time per token against position."""
    from matplotlib.figure import Figure

    window = report["settings"]["window"]
    drawn = Figure(figsize=(8, 4.5), layout="constrained")
    axes = drawn.add_subplot()
    for entry in report["entries"]:
        us = entry["windows_us"]
        ours = entry["library"] == "statetrack"
        positions = [window * (i + 1) for i in range(len(us))]
        axes.plot(positions, us, "-" if ours else "--", linewidth=1.2, label=f"{entry['library']}: {entry['name']}")
    axes.set_yscale("log")
    axes.set_xlabel("position")
    axes.set_ylabel("µs per token")
    axes.grid(axis="y", color="#d8dce1", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    drawn.legend(loc="outside right center", frameon=False, fontsize=8)
    return drawn
