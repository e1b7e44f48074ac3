"""Tables and the figure of the scan benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statetrack.bench.base import Report

_BLANK = "\N{EN DASH}"
_COLOURS = {"pd": "#d55e00", "flash-pd": "#0072b2", "diagonal": "#009e73"}
_STYLES = {"float32": "-", "complex64": "--"}
_DIRECTIONS = ("forward", "forward+backward")


def tables(report: Report) -> list[Any]:
    """Times over a copy by ``N`` for every ``(B, L)``, then speed-ups over the alternatives, then cost against length."""
    entries, settings = report["entries"], report["settings"]
    sizes, (first, *_) = settings["sizes"], settings["tokens"]
    found = [_by_size(entries, sizes, rows, length, "over_copy") for rows, length in settings["tokens"]]
    found.insert(1, _by_size(entries, sizes, first[0], first[1], "over_copy_in_place"))
    found += [_speedups(entries, name) for name in ("tree", "dense")]
    return [_titled(title, columns, rows) for title, columns, rows in [*found, _by_length(report)] if rows]


_Content = tuple[str, list[str], list[list[str]]]
"""Title, names of the columns after the first, rows."""


def _titled(title: str, columns: list[str], rows: list[list[str]]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("scan", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return Group(Text(title, style="bold"), table)


def _pairs(entries: list[dict[str, Any]], sizes: list[int], cell: Callable[[dict[str, Any]], str]) -> list[list[str]]:
    """Rows of ``forward / forward + backward`` cells, one per operation, one column per ``N``."""
    rows = []
    for op in dict.fromkeys(e["op"] for e in entries):
        cells = []
        for n in sizes:
            both = [
                next((cell(e) for e in entries if (e["op"], e["N"], e["direction"]) == (op, n, d)), _BLANK) for d in _DIRECTIONS
            ]
            cells.append(_BLANK if both == [_BLANK, _BLANK] else " / ".join(both))
        rows.append([op, *cells])
    return rows


_LIMITS = {"over_copy": "a copy of the same bytes", "over_copy_in_place": "a copy into memory that is there already"}


def _by_size(entries: list[dict[str, Any]], sizes: list[int], rows: int, length: int, limit: str) -> _Content:
    title = f"Time over that of {_LIMITS[limit]}, forward / forward + backward; B = {rows}, L = {length:,}"
    here = [e for e in entries if (e["B"], e["L"]) == (rows, length)]
    return title, [f"N = {n}" for n in sizes], _pairs(here, sizes, lambda e: f"{e[limit]['median']:.2f}")


def _speedups(entries: list[dict[str, Any]], name: str) -> _Content:
    what = {"tree": "the tree scan", "dense": "the dense recurrence"}[name]
    title = f"Times faster than {what}, forward / forward + backward; at the largest B x L where both ran"
    largest = {(e["op"], e["N"], e["direction"]): e for e in entries if name in e["speedup"]}  # Entries come smallest first.
    sizes = sorted({e["N"] for e in largest.values()})
    return (
        title,
        [f"N = {n}" for n in sizes],
        _pairs(list(largest.values()), sizes, lambda e: f"{e['speedup'][name]['median']:.0f}"),
    )


def _by_length(report: Report) -> _Content:
    lengths, n = report["settings"]["lengths"], report["settings"]["length_size"]
    title = f"Microseconds per token against length, and per call whatever the length; B = 1, N = {n}"
    rows = []
    for series in report["flatness"]:
        costs = [f"{cost:.3f}" if (cost := series["us_per_token"].get(str(length))) else _BLANK for length in lengths]
        spread = f"{series['largest_over_smallest']:.2f}"
        rows.append([series["op"], series["direction"], *costs, spread, f"{max(0, series['fixed_us']):.0f}"])
    return title, ["direction", *(f"L = {length:,}" for length in lengths), "max / min", "µs per call"], rows


def figure(report: Report) -> Any:
    """Ratio to a copy against ``N`` at the first ``(B, L)``, and cost per token against ``L``; without additive input."""
    from matplotlib.figure import Figure

    settings = report["settings"]
    rows, length = settings["tokens"][0]
    drawn = Figure(figsize=(10, 6.4), layout="constrained")
    for (by_size, by_length), direction in zip(drawn.subplots(2, 2), _DIRECTIONS, strict=True):
        chosen = [e for e in report["entries"] if e["direction"] == direction and not e["additive"]]
        here = [e for e in chosen if (e["B"], e["L"]) == (rows, length)]
        series = [e for e in chosen if (e["B"], e["N"]) == (1, settings["length_size"]) and e["L"] in settings["lengths"]]
        _lines(by_size, here, "N", lambda e: e["over_copy"]["median"])
        by_size.axhline(1, color="#5b6570", linewidth=1)
        by_size.set_ylim(bottom=0)
        by_size.set_title(f"{direction}: time over that of a copy (B = {rows}, L = {length:,})", loc="left", fontsize=10)
        by_size.set_xlabel("state size N")
        _lines(by_length, series, "L", lambda e: e["us_per_token"])
        by_length.set_ylim(bottom=0)
        by_length.set_title(f"{direction}: µs per token (B = 1, N = {settings['length_size']})", loc="left", fontsize=10)
        by_length.set_xlabel("length L")
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return drawn


def _lines(axes: Any, entries: list[dict[str, Any]], x: str, y: Callable[[dict[str, Any]], float]) -> None:
    ticks = sorted({e[x] for e in entries})
    for family, colour in _COLOURS.items():
        for dtype, style in _STYLES.items():
            points = sorted((e[x], y(e)) for e in entries if (e["family"], e["dtype"]) == (family, dtype))
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=4, label=f"{family}, {dtype}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.grid(axis="y", color="#d8dce1", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
