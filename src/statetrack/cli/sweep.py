"""``statetrack sweep``."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from statetrack.cli.config_options import parse_config
from statetrack.cli.console import console, note, print_json
from statetrack.cli.options import Flag, parse_known, refuse
from statetrack.cli.outcome import FAILED, Stopped
from statetrack.errors import InvalidInputError, RunError
from statetrack.layers import names_of
from statetrack.report.tables import DASH, percent
from statetrack.tasks import tasks
from statetrack.training import Run
from statetrack.training.cluster import run_on_cluster
from statetrack.training.settings import check
from statetrack.training.sweep import Job, Outcome, refuse_differences, run_jobs, save_outcomes, saved_outcomes

PROG = "statetrack sweep"


@dataclass(frozen=True)
class SweepOptions:
    """Train every layer on every task with every seed and learning rate.

    All options of `statetrack train LAYER TASK --help` may follow; they hold for every run. The same command again continues what
    was cut short and leaves alone what is done. Several sweeps may share a folder, if no two of their runs share a name.

    Attributes:
        out: folder that gets one folder per run, and sweep.json.
        layers: names of layers, or of several that alternate, as in "aussm|mamba".
        tasks: names of tasks.
        seeds: seeds.
        lrs: peak learning rates; none means the default of each layer and task.
        workers: processes on this machine, each with one thread unless --threads says more; on a cluster, jobs at once.
        test_lengths: lengths to test at in the end; none means 40 64 128 256 1000.
        n: test words per length.
        cluster: submit each run to a cluster; local and debug try that out on this machine.
        partition: of Slurm.
        minutes: time limit of a cluster job.
        json: print one JSON object in place of the table.
    """

    out: Path
    layers: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    lrs: tuple[float, ...] = ()
    workers: int = 1
    test_lengths: tuple[int, ...] = ()
    n: int = 512
    cluster: Literal["slurm", "local", "debug"] | None = None
    partition: str | None = None
    minutes: int = 60
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options, rest = parse_known(SweepOptions, argv, PROG)
    if options.workers < 0:
        raise InvalidInputError(f"--workers must be at least 0, got {options.workers}.")
    jobs = list(_jobs(options, rest))
    _refuse_others(jobs)
    results = options.out / "sweep.json"
    before = saved_outcomes(results)
    ended: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        ended.append(outcome)
        save_outcomes(results, ended, before)
        note(f"[{len(ended)}/{len(jobs)}] {Path(outcome.run).name}: {_told(outcome)}")

    if options.cluster:
        outcomes = run_on_cluster(
            jobs,
            options.out / "cluster",
            cluster=options.cluster,
            partition=options.partition,
            minutes=options.minutes,
            at_once=max(1, options.workers),
            done=done,
        )
    else:
        outcomes = run_jobs(jobs, workers=options.workers, done=done)
    save_outcomes(results, outcomes, before)
    if any(outcome.status == "stopped" for outcome in outcomes):
        raise Stopped(f"Stopped. Continue with: {PROG} {shlex.join(argv)}")
    if options.json:
        print_json({"runs": [asdict(outcome) for outcome in outcomes]})
    else:
        console().print(_table(outcomes))
    note(f"Results: {results}")
    return FAILED if any(outcome.status == "failed" for outcome in outcomes) else 0


def _jobs(options: SweepOptions, rest: Sequence[str]) -> Iterator[Job]:
    for layer, task in itertools.product(options.layers, options.tasks):
        names_of(layer), tasks.get(task)
        prog = f"{PROG} ({layer} on {task})"
        config, _, unknown, known = parse_config(layer, task, rest, prog)
        refuse(unknown, PROG, SweepOptions, known)
        check(config, options.test_lengths)
        for seed, lr in itertools.product(options.seeds, options.lrs or (None,)):
            name = f"{layer.replace('|', '+')}-{task}" + ("" if lr is None else f"-lr{lr:g}") + f"-{seed}"
            optim = config.optim if lr is None else replace(config.optim, lr=lr)
            yield Job(replace(config, seed=seed, optim=optim), options.out / name, options.test_lengths, options.n)


def _refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse, before anything is trained, to meet runs with other settings; a folder that cannot be read fails on its own."""
    for job in jobs:
        try:
            Run.open(job.out)
        except RunError:
            continue
        refuse_differences(job.config, job.out)


def _told(outcome: Outcome) -> str:
    if outcome.status != "done":
        return f"{outcome.status}. {outcome.error or ''}".strip()
    tested = "  ".join(f"{length}: {percent(share)}" for length, share in outcome.accuracy.items())
    return f"{outcome.step} steps, {outcome.cpu_seconds:.0f} CPU s;  {tested}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    lengths = sorted({int(length) for outcome in outcomes for length in outcome.accuracy})
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("Layer", "Task", "Seed", "Rate", "Steps", "CPU s"):
        table.add_column(name, justify="left" if name in ("Layer", "Task") else "right")
    for length in lengths:
        table.add_column(f"{length:,}", justify="right", no_wrap=True)
    failed = any(outcome.error for outcome in outcomes)
    if failed:
        table.add_column("Failed because")
    for o in outcomes:
        shares = [percent(o.accuracy[str(length)]) if str(length) in o.accuracy else DASH for length in lengths]
        row = [o.layer, o.task, str(o.seed), f"{o.lr:g}", str(o.step), f"{o.cpu_seconds:.0f}", *shares]
        table.add_row(*row, *([Text(o.error or "", style="red")] if failed else []))
    return table
