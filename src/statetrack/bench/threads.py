"""``statetrack bench threads``: a single row of one-hot transitions on one thread and on two.

By the clock on the wall, in turns: medians, and the fastest tenth of the rounds, which is what a machine with nothing else to do
takes. Diagonal recurrences are not cut for several threads.
"""

from __future__ import annotations

import statistics
from typing import Any

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.machine import machine
from statetrack.bench.probe import run_probe
from statetrack.bench.scan_cases import OPS, Op
from statetrack.bench.scan_check import against_reference
from statetrack.bench.threads_probe import N_THREADS
from statetrack.bench.timing import spread

DIRECTIONS = ("forward", "forward+backward")
_STATES = 128
_SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE"}


def measure(quick: bool, note: Note, *, length: int | None = None) -> Report:
    """The report of all operations that cut a row."""
    length = (16384 if quick else 65536) if length is None else length
    ops = tuple(op for op in OPS if op.family != "diagonal")
    return measure_rows(ops, note, length=length, n=_STATES, rounds=8 if quick else 40)


def measure_rows(ops: tuple[Op, ...], note: Note, *, length: int, n: int, rounds: int) -> Report:
    """``entries`` by operation and direction, ``refused``, and ``not_run`` with the reason where there is a single core."""
    entries: list[dict[str, Any]] = []
    refused, not_run = [], []
    if machine()["cores"] < N_THREADS:
        not_run.append(f"{N_THREADS} threads need as many cores")
    for op in () if not_run else ops:
        note(f"B=1, L={length}, N={n} on {N_THREADS} threads: {op}")
        check = against_reference(op, n)
        if not check["ok"]:
            refused.append({"op": str(op), **check})
            continue
        settings = {"op": str(op), "length": length, "n": n, "rounds": rounds}
        seen = run_probe("statetrack.bench.threads_probe", settings, f"{op} on two threads", _SLEEPING)
        if not seen["difference"] <= 1e-4:
            refused.append({"op": str(op), "difference": seen["difference"]})
            continue
        entries += [_entry(op, direction, seen) for direction in DIRECTIONS]
    sizes = {"B": 1, "L": length, "N": n, "heads": 1, "rounds": rounds, "clock": "wall", "environment": _SLEEPING}
    return {"settings": sizes, "entries": entries, "not_run": not_run, "refused": refused}


def _entry(op: Op, direction: str, seen: dict[str, Any]) -> dict[str, Any]:
    one, two = (sorted(seen[direction][str(n_threads)]) for n_threads in (1, N_THREADS))
    tenth = len(one) // 10
    return {
        "op": str(op),
        "direction": direction,
        "seconds": {"1": spread(one), str(N_THREADS): spread(two)},
        "fastest_tenth": {"1": one[tenth], str(N_THREADS): two[tenth]},
        "speedup": one[tenth] / two[tenth],
        "speedup_of_medians": statistics.median(one) / statistics.median(two),
        "difference": seen["difference"],
    }


def tables(report: Report) -> list[Any]:
    """One row per operation and direction."""
    from rich.table import Table
    from rich.text import Text

    s = report["settings"]
    title = f"A row of L = {s['L']:,}, N = {s['N']} on one thread and on two; wall clock, fastest tenth of {s['rounds']} rounds"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("scan")
    for column in ("direction", "one, ms", "two, ms", "times faster", "of medians"):
        table.add_column(column, justify="right")
    for e in report["entries"]:
        times = (f"{1e3 * e['fastest_tenth'][n]:.2f}" for n in ("1", "2"))
        table.add_row(e["op"], e["direction"], *times, f"{e['speedup']:.2f}", f"{e['speedup_of_medians']:.2f}")
    return [table, Text("\n".join(f"Not run: {reason}." for reason in report["not_run"]))]


def figure(report: Report) -> Any:
    """Bars of how many times faster two threads are."""
    from matplotlib.figure import Figure

    entries = report["entries"][::-1]
    drawn = Figure(figsize=(7, 0.8 + 0.3 * max(len(entries), 1)), layout="constrained")
    axes = drawn.add_subplot()
    colours = {"forward": "#0072b2", "forward+backward": "#d55e00"}
    names = [f"{e['op']}, {e['direction']}" for e in entries]
    axes.barh(names, [e["speedup"] for e in entries], color=[colours[e["direction"]] for e in entries])
    axes.axvline(1, color="#5b6570", linewidth=1)
    axes.set_xlabel("times faster on two threads than on one")
    axes.grid(axis="x", color="#d8dce1", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return drawn


benchmarks.register("threads")(Benchmark(measure, tables, figure, ("length",)))
