"""``statetrack bench layer``: a training step of our layers and of those of other libraries, in one process.

Time is measured in alternating order, memory in a process per layer, and the shares of our own steps by torch's profiler.
"""

from __future__ import annotations

from typing import Any

import torch

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.layer_cases import CONTENDERS, check, label_of, shares, training_step
from statetrack.bench.layer_report import figure, tables
from statetrack.bench.probe import run_probe
from statetrack.bench.runner import Contender, NotRun, Runner, build
from statetrack.bench.timing import clock, spread, take_turns

_BUDGET = 10.0
"""Seconds per contender; those that take longer for one step get three."""


def measure(quick: bool, note: Note, *, width: int = 256, batch: int = 4, length: int | None = None) -> Report:
    """The report of all layers that run here."""
    length = (512 if quick else 4096) if length is None else length
    return measure_layers(CONTENDERS, note, width=width, batch=batch, length=length, budget=1.0 if quick else _BUDGET)


def measure_layers(
    contenders: tuple[Contender, ...], note: Note, *, width: int, batch: int, length: int, budget: float
) -> Report:
    """The report: ``entries`` by time, ``not_run`` with reasons, ``refused``; ratios are to the first contender."""
    runners, not_run, refused = _built(contenders, width, note)
    x = torch.randn(batch, length, width, generator=torch.Generator().manual_seed(0))
    note(f"{len(runners)} layers take turns over {batch} x {length:,} tokens")
    steps = {label: (lambda runner=runner: training_step(runner, x)) for label, runner in runners.items()}
    timings = take_turns(steps, budget)
    first = next(iter(runners), "")
    entries = []
    for contender in contenders:
        label = label_of(contender)
        if label not in runners:
            continue
        note(f"memory of {label}")
        settings = {"name": label, "width": width, "batch": batch, "length": length}
        memory = run_probe("statetrack.bench.layer_probe", settings, f"The memory of {label}")
        entries.append(
            {
                "name": contender.name,
                "library": contender.library,
                "about": contender.about,
                "parameters": sum(p.numel() for p in runners[label].parameters()),
                "seconds": timings[label].summary(),
                "over_first": spread(timings[label].over(timings[first])),
                "step_bytes": memory["peak_bytes"] - memory["before_bytes"],
                "shares": shares(runners[label], x) if contender.ours else None,
            }
        )
    return {
        "settings": {"width": width, "batch": batch, "length": length, "budget_seconds": budget, "clock": clock()},
        "entries": sorted(entries, key=lambda entry: entry["seconds"]["median"]),
        "first": first,
        "not_run": not_run,
        "refused": refused,
    }


def _built(
    contenders: tuple[Contender, ...], width: int, note: Note
) -> tuple[dict[str, Runner], list[dict[str, str]], list[dict[str, Any]]]:
    """Runners that run here and are right."""
    runners: dict[str, Runner] = {}
    not_run, refused = [], []
    for contender in contenders:
        label = label_of(contender)
        note(f"build {label}")
        try:
            runner = build(contender, width)
        except NotRun as reason:
            not_run.append({"name": label, "reason": str(reason)})
            continue
        found = check(runner, width) if contender.ours else {"ok": True}
        if found["ok"]:
            runners[label] = runner
        else:
            refused.append({"name": label, **found})
    return runners, not_run, refused


benchmarks.register("layer")(Benchmark(measure, tables, figure, ("width", "batch", "length")))
