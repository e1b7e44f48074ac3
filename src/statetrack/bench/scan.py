"""``statetrack bench scan``: the CPU kernels against a copy of the same bytes, the tree scan and the dense recurrence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.machine import available_bytes
from statetrack.bench.scan_cases import OPS, Op, Problem, Shape, Traffic
from statetrack.bench.scan_check import against_reference, at_full_length
from statetrack.bench.scan_report import figure, tables
from statetrack.bench.timing import Timing, clock, spread, take_turns

_DENSE_LENGTH = 4096
"""The dense recurrence is a Python loop; it is not run over more steps."""


@dataclass(frozen=True)
class Grid:
    """What is measured.

    Attributes:
        sizes: ``N``.
        tokens: ``(B, L)``.
        lengths: ``L`` of the series at ``B = 1`` and ``length_size``, for the cost per token.
        length_size: ``N`` of that series.
        budget: seconds per contender and shape.
        tree_states: the tree scan is not run with more states.
        dense_bytes: nor the dense recurrence with larger matrices.
        tensor_bytes: shapes with a larger tensor of states are left out.
        more: further shapes.
    """

    sizes: tuple[int, ...]
    tokens: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]
    length_size: int
    budget: float
    tree_states: int
    dense_bytes: float
    tensor_bytes: float = 3e8
    more: tuple[Shape, ...] = ()

    def shapes(self) -> list[Shape]:
        """Smallest first."""
        found = {Shape(rows, length, n) for rows, length in self.tokens for n in self.sizes}
        found |= {Shape(1, length, self.length_size) for length in self.lengths}
        found |= set(self.more)
        return sorted(found, key=lambda shape: (shape.states, shape.rows, shape.n))


FULL = Grid(
    sizes=(16, 64, 128, 512),
    tokens=((1, 65536), (16, 4096), (16, 65536), (1, 512)),
    lengths=(1024, 4096, 16384, 65536, 262144, 1048576),
    length_size=64,
    budget=0.1,
    tree_states=1 << 20,
    dense_bytes=6e8,
    more=(Shape(1, 128, 1024),),
)
QUICK = Grid(
    sizes=(16, 128),
    tokens=((1, 8192), (16, 512), (1, 512)),
    lengths=(1024, 4096, 16384),
    length_size=128,
    budget=0.01,
    tree_states=1 << 16,
    dense_bytes=4e7,
)


def measure(quick: bool, note: Note) -> Report:
    """All operations on a grid."""
    return measure_grid(QUICK if quick else FULL, OPS, note)


def measure_grid(grid: Grid, ops: tuple[Op, ...], note: Note) -> Report:
    """The report: ``entries`` (one per operation, shape and direction), ``flatness``, ``checks``, ``refused`` and ``skipped``."""
    shapes = grid.shapes()
    checks, refused = _checks(ops, sorted({shape.n for shape in shapes}), note)
    wrong = {(failed["op"], failed["N"]) for failed in refused}
    entries: list[dict[str, Any]] = []
    skipped = []
    for i, shape in enumerate(shapes):
        for op in ops:
            note(f"shape {i + 1} of {len(shapes)} (B={shape.rows}, L={shape.length}, N={shape.n}): {op}")
            if (str(op), shape.n) in wrong:
                continue
            reason = _too_large(grid, op, shape)
            if reason:
                skipped.append({**_name(op, shape), "reason": reason})
                continue
            problem = Problem.make(op, shape)
            law = at_full_length(problem)
            if not law["ok"]:
                refused.append({**_name(op, shape), **law})
                continue
            entries += _entries(problem, shape, grid)
    settings = {"sizes": list(grid.sizes), "tokens": [list(pair) for pair in grid.tokens], "budget_seconds": grid.budget}
    return {
        "settings": {**settings, "lengths": list(grid.lengths), "length_size": grid.length_size, "heads": 1, "clock": clock()},
        "entries": entries,
        "flatness": _flatness(grid, ops, entries),
        "checks": checks,
        "refused": refused,
        "skipped": skipped,
    }


def _checks(ops: tuple[Op, ...], sizes: list[int], note: Note) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    checks = []
    for op in ops:
        note(f"check {op} against the double-precision reference")
        began = time.perf_counter()
        Problem.make(op, Shape(1, 2, 2)).gradients("cpu")
        cold = time.perf_counter() - began
        checks += [{"op": str(op), "N": n, "first_call_seconds": cold, **against_reference(op, n)} for n in sizes]
    return checks, [check for check in checks if not check["ok"]]


def _too_large(grid: Grid, op: Op, shape: Shape) -> str | None:
    tensor = shape.states * op.dtype.itemsize
    if tensor > grid.tensor_bytes:
        return f"one tensor of states takes {tensor / 1e9:.1f} GB"
    need = 2 * Traffic.both(op, shape).moved  # Arguments and results, and as much for the copy.
    if need > available_bytes():
        return f"needs {need / 1e9:.1f} GB of memory"
    return None


def _entries(problem: Problem, shape: Shape, grid: Grid) -> list[dict[str, Any]]:
    """Forward, and forward + backward, with all contenders."""
    op = problem.op
    alternatives: dict[str, tuple[Problem, Any]] = {}
    not_run = {}
    if shape.states <= grid.tree_states:
        alternatives["tree"] = problem, "tree"
    else:
        not_run["tree"] = f"{shape.states:.1e} states"
    dense_bytes = shape.states * shape.n * op.dtype.itemsize
    # Matrices, their gradients and what the backward pass gathers on the way.
    if dense_bytes <= min(grid.dense_bytes, available_bytes() / 4) and shape.length <= _DENSE_LENGTH:
        alternatives["dense"] = problem.dense(), "reference"
    else:
        not_run["dense"] = f"matrices of {dense_bytes / 1e9:.1f} GB over {shape.length} steps"
    found = []
    for direction, traffic in (("forward", Traffic.forward(op, shape)), ("forward+backward", Traffic.both(op, shape))):
        pairs = {"cpu": (problem, "cpu"), **alternatives}
        contenders = {**_copies(traffic), **{name: _call(p, b, direction) for name, (p, b) in pairs.items()}}
        found.append(_entry(op, shape, direction, traffic.moved, take_turns(contenders, grid.budget), not_run))
    return found


def _call(problem: Problem, backend: Any, direction: str) -> Callable[[], object]:
    return (lambda: problem.run(backend)) if direction == "forward" else (lambda: problem.gradients(backend))


def _copies(traffic: Traffic) -> dict[str, Callable[[], object]]:
    """The limit: as many bytes, half of them read and half written.

    ``copy`` takes new memory for as much as the operation returns; ``copy in place`` has all its memory beforehand, which no
    operation that returns a new tensor can.
    """
    source = torch.ones(math.ceil(traffic.moved / 8))
    target = torch.zeros_like(source)
    fresh = min(len(source), math.ceil(traffic.written / 4))

    def copy() -> None:
        torch.empty(fresh).copy_(source[:fresh])
        target[fresh:].copy_(source[fresh:])

    return {"copy": copy, "copy in place": lambda: target.copy_(source)}


def _entry(
    op: Op, shape: Shape, direction: str, moved: int, timings: dict[str, Timing], not_run: dict[str, str]
) -> dict[str, Any]:
    ours = timings["cpu"]
    return {
        **_name(op, shape),
        "direction": direction,
        "bytes": moved,
        "seconds": {name: timing.summary() for name, timing in timings.items()},
        "over_copy": spread(ours.over(timings["copy"])),
        "over_copy_in_place": spread(ours.over(timings["copy in place"])),
        "speedup": {name: spread(timings[name].over(ours)) for name in ("tree", "dense") if name in timings},
        "not_run": not_run,
        "ns_per_state": 1e9 * ours.median / shape.states,
        "us_per_token": 1e6 * ours.median / (shape.rows * shape.length),
        "gb_per_s": moved / ours.median / 1e9,
    }


def _name(op: Op, shape: Shape) -> dict[str, Any]:
    return {
        "op": str(op),
        "family": op.family,
        "dtype": op.dtype_name,
        "additive": op.additive,
        "B": shape.rows,
        "L": shape.length,
        "N": shape.n,
    }


def _flatness(grid: Grid, ops: tuple[Op, ...], entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cost per token against length: largest over smallest, and the time that does not depend on the length."""
    found = []
    for op in ops:
        for direction in ("forward", "forward+backward"):
            series = [
                e
                for e in entries
                if (e["op"], e["direction"], e["B"], e["N"]) == (str(op), direction, 1, grid.length_size)
                and e["L"] in grid.lengths
            ]
            if len(series) < 2:
                continue
            costs = {str(e["L"]): e["us_per_token"] for e in series}
            short, long = series[0], series[-1]
            times = [e["seconds"]["cpu"]["median"] for e in (short, long)]
            slope = (times[1] - times[0]) / (long["L"] - short["L"])
            found.append(
                {
                    "op": str(op),
                    "direction": direction,
                    "N": grid.length_size,
                    "us_per_token": costs,
                    "largest_over_smallest": max(costs.values()) / min(costs.values()),
                    "fixed_us": 1e6 * (times[0] - slope * short["L"]),
                }
            )
    return found


benchmarks.register("scan")(Benchmark(measure, tables, figure))
