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
    """Times over a copy by ``N`` for every ``(B, L)``, then cost against length, then speed-ups over the alternatives."""
    entries, settings = report["entries"], report["settings"]
    found = [_by_size(entries, settings["sizes"], rows, length) for rows, length in settings["tokens"]]
    found += [_speedups(entries, settings["sizes"], name) for name in ("tree", "dense")]
    return [table for table in [*found, _by_length(report)] if table.row_count]


def _table(title: str, columns: list[str]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("scan", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _pairs(entries: list[dict[str, Any]], sizes: list[int], cell: Callable[[dict[str, Any]], str]) -> list[tuple[str, list[str]]]:
    """Rows of ``forward / forward+backward`` cells, one per operation, one column per ``N``."""
    rows = []
    for op in dict.fromkeys(e["op"] for e in entries):
        cells = []
        for n in sizes:
            both = [
                next((cell(e) for e in entries if (e["op"], e["N"], e["direction"]) == (op, n, d)), _BLANK) for d in _DIRECTIONS
            ]
            cells.append(" / ".join(both) if both != [_BLANK, _BLANK] else _BLANK)
        rows.append((op, cells))
    return rows


def _by_size(entries: list[dict[str, Any]], sizes: list[int], rows: int, length: int) -> Any:
    title = f"Time over that of a copy of the same bytes, forward / forward + backward; B = {rows}, L = {length:,}"
    table = _table(title, [f"N = {n}" for n in sizes])
    here = [e for e in entries if (e["B"], e["L"]) == (rows, length)]
    for op, cells in _pairs(here, sizes, lambda e: f"{e['over_copy']['median']:.2f}"):
        table.add_row(op, *cells)
    return table


def _speedups(entries: list[dict[str, Any]], sizes: list[int], name: str) -> Any:
    what = {"tree": "the tree scan", "dense": "the dense recurrence"}[name]
    table = _table(
        f"Times faster than {what}, forward / forward + backward; longest run where both ran", [f"N = {n}" for n in sizes]
    )
    longest = {(e["op"], e["N"], e["direction"]): e for e in entries if name in e["speedup"]}  # Entries come smallest first.
    for op, cells in _pairs(list(longest.values()), sizes, lambda e: f"{e['speedup'][name]['median']:.0f}"):
        table.add_row(op, *cells)
    return table


def _by_length(report: Report) -> Any:
    lengths, n = report["settings"]["lengths"], report["settings"]["length_size"]
    columns = [f"L = {length:,}" for length in lengths]
    table = _table(f"Microseconds per token against length; B = 1, N = {n}", ["direction", *columns, "max / min", "fixed µs"])
    for row in report["flatness"]:
        costs = [f"{cost:.3f}" if (cost := row["us_per_token"].get(str(length))) else _BLANK for length in lengths]
        table.add_row(row["op"], row["direction"], *costs, f"{row['largest_over_smallest']:.2f}", f"{row['fixed_us']:.0f}")
    return table


def figure(report: Report) -> Any:
    """Ratio to a copy against ``N`` at the first ``(B, L)``, and cost per token against ``L``; without additive input."""
    from matplotlib.figure import Figure

    rows, length = report["settings"]["tokens"][0]
    drawn = Figure(figsize=(10, 6.4), layout="constrained")
    for (by_size, by_length), direction in zip(drawn.subplots(2, 2), _DIRECTIONS, strict=True):
        chosen = [e for e in report["entries"] if e["direction"] == direction and not e["additive"]]
        here = [e for e in chosen if (e["B"], e["L"]) == (rows, length)]
        series = [e for e in chosen if (e["B"], e["N"]) == (1, report["settings"]["length_size"])]
        _lines(by_size, here, "N", lambda e: e["over_copy"]["median"])
        by_size.axhline(1, color="#5b6570", linewidth=1)
        by_size.set_ylim(bottom=0)
        by_size.set_title(f"{direction}: time over that of a copy (B = {rows}, L = {length:,})", loc="left", fontsize=10)
        by_size.set_xlabel("state size N")
        _lines(by_length, series, "L", lambda e: e["us_per_token"])
        by_length.set_ylim(bottom=0)
        by_length.set_title(
            f"{direction}: µs per token (B = 1, N = {report['settings']['length_size']})", loc="left", fontsize=10
        )
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
