"""Many runs: each is begun, continued or skipped as its folder demands, and one that fails leaves the others alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Literal

import statetrack
from statetrack.errors import RunError, StateTrackError
from statetrack.training.config import TrainConfig
from statetrack.training.files import read_json, write_json
from statetrack.training.interrupt import StopRequest
from statetrack.training.measure import measure
from statetrack.training.run import Run
from statetrack.training.settings import check, differences
from statetrack.training.trainer import Observer, resume, train

Status = Literal["done", "failed", "stopped"]
Done = Callable[["Outcome"], None]


@dataclass(frozen=True)
class Job:
    """One run that is to be.

    Attributes:
        config: what to train.
        out: its folder.
        lengths: lengths to test at in the end; none means the usual ones.
        n: test words per length.
        pooled: also test on words with uniform lengths in this range.
    """

    config: TrainConfig
    out: Path
    lengths: tuple[int, ...] = ()
    n: int = 512
    pooled: tuple[int, int] | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        run: its folder.
        layer, task, seed, lr: what sets it apart.
        status: ``"done"``, ``"failed"`` or ``"stopped"`` (by the user; it can be continued).
        error: why it failed.
        step: steps taken.
        cpu_seconds: processor time of its training.
        validation: last validation accuracy.
        accuracy: test accuracy by length.
        pooled: pooled test accuracy, if it was asked for.
    """

    run: str
    layer: str
    task: str
    seed: int
    lr: float
    status: Status
    error: str | None = None
    step: int = 0
    cpu_seconds: float = 0.0
    validation: float | None = None
    accuracy: dict[str, float] = field(default_factory=dict)
    pooled: float | None = None


def train_or_resume(config: TrainConfig, out: str | Path, *, observer: Observer | None = None) -> Run:
    """Train into a folder, or continue what is there if it has the same settings.

    Raises:
        RunError: the folder holds something else.
        InvalidInputError: a configuration that cannot run; no folder is made then.
    """
    out = Path(out)
    if not (out / "config.json").exists():
        check(config)
        return train(config, out, observer=observer)
    refuse_differences(config, out)
    return resume(out, observer=observer)


def refuse_differences(config: TrainConfig, out: Path) -> None:
    """Raise ``RunError`` unless the run in a folder has these settings."""
    if changed := differences(Run.open(out).config.self_contained(), config.self_contained()):
        listed = ", ".join(f"{name} is {there!r} there and {here!r} here" for name, (there, here) in list(changed.items())[:3])
        raise RunError(
            f"{out} holds a run with other settings: {listed}. Continue it with --resume {out}, or choose another folder."
        )


def run_job(job: Job, observer: Observer | None = None) -> Outcome:
    """Do one job in this process; whatever goes wrong is told in the outcome."""
    try:
        run = train_or_resume(job.config, job.out, observer=observer)
        found = measure(run, job.lengths, n=job.n, pooled=job.pooled, reuse=True)
    except KeyboardInterrupt:
        return _outcome(job, "stopped")
    except StateTrackError as error:
        return _outcome(job, "failed", str(error))
    except Exception as error:
        return _outcome(job, "failed", f"{type(error).__name__}: {error}")
    now = run.progress()
    return Outcome(
        **_label(job),
        status="done",
        step=now.step,
        cpu_seconds=round(now.cpu_seconds, 1),
        validation=now.validation,
        accuracy={str(length): share for length, share in found.accuracy.items()},
        pooled=found.pooled["accuracy"] if found.pooled else None,
    )


def run_jobs(jobs: Sequence[Job], *, workers: int = 1, done: Done = lambda outcome: None) -> list[Outcome]:
    """Do jobs on this machine.

    Args:
        jobs: what to do; jobs that are done already cost only their test.
        workers: number of processes; 0 does one job after another in this process.
        done: called with each outcome, in this thread, in the order in which they end.

    Returns:
        Outcomes in the order of the jobs. Those that Ctrl-C or SIGTERM stopped say so; what had begun is saved and can be
        continued.
    """
    outcomes: dict[int, Outcome] = {}

    def take(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        done(outcome)

    with StopRequest() as stop:
        if workers:
            _in_processes(jobs, min(workers, len(jobs)), stop, take)
        else:
            for index, job in enumerate(jobs):
                if not stop.requested:
                    take(index, run_job(job, stop))
    return [outcomes.get(index) or _outcome(job, "stopped") for index, job in enumerate(jobs)]


def saved_outcomes(path: Path) -> list[dict[str, Any]]:
    """What ``save_outcomes`` wrote into a file; nothing where there is none.

    Raises:
        RunError: a file that holds something else.
    """
    stored = read_json(path) if path.exists() else {"runs": []}
    runs = stored.get("runs") if isinstance(stored, dict) else None
    if not isinstance(runs, list) or not all(isinstance(entry, dict) and isinstance(entry.get("run"), str) for entry in runs):
        raise RunError(f"{path} holds no results of a sweep; move it away.")
    return runs


def save_outcomes(path: Path, outcomes: Sequence[Outcome], others: Sequence[dict[str, Any]] = ()) -> None:
    """Write outcomes as JSON, after the ``others``, saved ones, of folders that are not among theirs.

    A run that was done and is only stopped before its turn stays done.

    Raises:
        RunError: the disk refuses.
    """
    done = {Path(entry["run"]).name for entry in others if entry.get("status") == "done"}
    ours = [asdict(o) for o in outcomes if not (o.status == "stopped" and Path(o.run).name in done)]
    names = {Path(entry["run"]).name for entry in ours}
    kept = [entry for entry in others if Path(entry["run"]).name not in names]
    write_json(path, {"statetrack": statetrack.__version__, "runs": [*kept, *ours]})


def _label(job: Job) -> dict[str, Any]:
    config = job.config
    return {"run": str(job.out), "layer": config.layer, "task": config.task, "seed": config.seed, "lr": config.optim.lr}


def _outcome(job: Job, status: Status, error: str | None = None) -> Outcome:
    return Outcome(**_label(job), status=status, error=error)


# -- processes -----------------------------------------------------------------------------------------------------------------


def _in_processes(jobs: Sequence[Job], workers: int, stop: StopRequest, take: Callable[[int, Outcome], None]) -> None:
    """Each thread keeps one process busy, so that a process that dies takes down only its own job."""
    context = multiprocessing.get_context("spawn")
    halt = context.Event()
    waiting: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()
    for entry in enumerate(jobs):
        waiting.put(entry)

    def lane() -> None:
        pool = None
        while not halt.is_set():
            try:
                index, job = waiting.get_nowait()
            except queue.Empty:
                break
            pool = pool or ProcessPoolExecutor(1, mp_context=context, initializer=_begin_process, initargs=(halt, os.getpid()))
            try:
                ended.put((index, pool.submit(_run_in_process, job).result()))
            except BrokenProcessPool:
                pool = None
                ended.put((index, _outcome(job, "failed", "Its process died (out of memory?); the same command continues it.")))
        if pool is not None:
            pool.shutdown()

    with ThreadPoolExecutor(workers) as threads:
        lanes = [threads.submit(lane) for _ in range(workers)]
        try:
            while not all(each.done() for each in lanes) or not ended.empty():
                if stop.requested:
                    halt.set()
                with contextlib.suppress(queue.Empty):
                    take(*ended.get(timeout=0.2))
        finally:
            halt.set()
    for each in lanes:
        each.result()


_halt: Event | None = None
_parent = 0


def _begin_process(halt: Event, parent: int) -> None:
    """In a new process: Ctrl-C reaches the whole group, but only the parent decides what it means."""
    global _halt, _parent
    _halt, _parent = halt, parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_in_process(job: Job) -> Outcome:
    outcome = run_job(job, _watch)
    if os.getppid() != _parent:  # nobody is left to take the outcome
        os._exit(1)
    return outcome


def _watch(record: dict[str, Any]) -> None:
    if (_halt is not None and _halt.is_set()) or os.getppid() != _parent:
        raise KeyboardInterrupt
