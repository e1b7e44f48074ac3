"""``statetrack train``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statetrack.analysis.state_use import StateMonitor, resume_monitored, train_monitored
from statetrack.cli.config_options import parse_config
from statetrack.cli.console import TrainingDisplay, console, note, print_json
from statetrack.cli.options import Flag, parse, refuse
from statetrack.cli.outcome import RunFailed, Stopped
from statetrack.errors import InvalidInputError, NumericalError, RunError
from statetrack.layers import layers, names_of
from statetrack.report.tables import accuracy_table
from statetrack.tasks import tasks
from statetrack.training import Observer, Run, TrainConfig, resume, train
from statetrack.training.interrupt import StopRequest
from statetrack.training.measure import Measurement, measure
from statetrack.training.settings import check, check_test_lengths
from statetrack.training.sweep import refuse_differences
from statetrack.training.tensorboard import TensorBoard

PROG = "statetrack train"


@dataclass(frozen=True)
class OutputOptions:
    """Options of how to show a run.

    Attributes:
        test_lengths: lengths to test at in the end; none means those the run was begun with, else 40 64 128 256 1000, as far as
            the task can make them.
        tensorboard: also write scalars for TensorBoard into the run folder.
        monitor: steps between measurements of how the layers use their states, which go to state_use.jsonl; 0 makes none.
        json: print one JSON object in place of the table.
    """

    test_lengths: tuple[int, ...] = ()
    tensorboard: Flag = False
    monitor: int = 0
    json: Flag = False


@dataclass(frozen=True)
class NewRunOptions(OutputOptions):
    """Options of a new run beside its configuration.

    Attributes:
        seed: of initialisation, data and dropout.
        out: run folder; by default runs/LAYER-TASK-SEED.
        resume: continue the run in --out if there is one.
    """

    seed: int = 0
    out: Path | None = None
    resume: Flag = False


@dataclass(frozen=True)
class ResumeOptions(OutputOptions):
    """Continue a run from its newest checkpoint.

    Attributes:
        resume: the run folder.
    """

    resume: Path = Path()


def run(argv: list[str]) -> int:
    """Run the command."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    if argv[0].startswith("-") and any(token.split("=")[0] == "--resume" for token in argv):
        options: Any = parse(ResumeOptions, argv, PROG)
        opened = Run.open(options.resume)
        config = opened.config
        check_test_lengths(config.task, opened.task, options.test_lengths)
        if opened.finished:
            note(f"{options.resume} is finished (step {opened.progress().step}); there is nothing left to train.")
        return _train(_continue(options.resume, options), config, options.resume, options)
    layer, task = names(argv)
    config, options, rest, known = parse_config(layer, task, argv[2:], f"{PROG} {layer} {task}", extra=NewRunOptions)
    refuse(rest, f"{PROG} {layer} {task}", known)
    if options.resume and options.out is None:
        raise InvalidInputError("--resume with LAYER and TASK needs --out RUN. To continue a run: statetrack train --resume RUN")
    out = options.out or free_folder(Path("runs") / f"{layer.replace('|', '+')}-{task}-{config.seed}")
    check(config, options.test_lengths)
    return _train(_begin(config, out, options), config, out, options)


def _begin(config: TrainConfig, out: Path, options: NewRunOptions) -> Callable[[Observer], Run]:
    """Training into a folder that is new or, with ``--resume``, may hold the run already."""
    if options.resume and (out / "config.json").exists():
        refuse_differences(config, out)
        return _continue(out, options)
    asked = options.test_lengths
    if not options.monitor:
        return lambda observer: train(config, out, observer=observer, test_lengths=asked)
    return lambda observer: train_monitored(config, out, StateMonitor(options.monitor, observer=observer), asked)


def _continue(path: Path, options: OutputOptions) -> Callable[[Observer], Run]:
    if options.test_lengths and leads():
        Run.open(path).plan_test(options.test_lengths)
    if not options.monitor:
        return lambda observer: resume(path, observer=observer)
    return lambda observer: resume_monitored(path, StateMonitor(options.monitor, observer=observer))


def names(argv: list[str]) -> tuple[str, str]:
    """Layer and task, which come first. Raises ``InvalidInputError`` or ``UnknownNameError``."""
    given = [token for token in argv[:2] if not token.startswith("-")]
    if len(given) < 2:
        raise InvalidInputError(f"LAYER and TASK come first, as in: {PROG} flash-pd-ssm cycle-navigation --seed 3")
    names_of(given[0]), tasks.get(given[1])
    return given[0], given[1]


def free_folder(path: Path) -> Path:
    """The path, or the first of path-2, path-3, ... that is not taken."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def train_shown(begin: Callable[[Observer], Run], config: TrainConfig, out: Path, *, tensorboard: bool = False) -> Run:
    """Train with a display, and stop cleanly when asked to.

    Args:
        begin: trains with an observer.
        config: the run.
        out: its folder.
        tensorboard: also write scalars for TensorBoard.

    Raises:
        Stopped: by Ctrl-C or SIGTERM; the run is saved.
        RunFailed: the run broke after it had begun.
    """
    continued = f"Continue with: statetrack train --resume {shlex.quote(str(out))}"
    with ExitStack() as stack:
        observers: list[Observer] = []
        if leads():
            title = f"Training {config.layer} on {config.task}, seed {config.seed}, in {out}"
            display = stack.enter_context(TrainingDisplay(title, config.steps))
            observers.append(display)
            if tensorboard:
                board = TensorBoard(out / "tensorboard")
                stack.callback(board.close)
                observers.append(board)
        observers.append(stack.enter_context(StopRequest()))

        def observe(record: dict[str, Any]) -> None:
            for observer in observers:
                observer(record)

        try:
            return begin(observe)
        except KeyboardInterrupt:
            raise Stopped(f"Stopped at step {Run.open(out).progress().step}. {continued}") from None
        except NumericalError as error:
            raise RunFailed(str(error)) from error
        except RunError as error:
            if (leads() and display.step == 0) or not (out / "config.json").exists():
                raise
            raise RunFailed(f"{error}\n{continued}") from error


def leads() -> bool:
    """Whether this process prints: under torchrun only the first one does."""
    return os.environ.get("RANK", "0") == "0"


def summary(run: Run, found: Measurement) -> dict[str, Any]:
    """A run and its measurement as plain data."""
    now, config = run.progress(), run.config
    return {
        "run": str(run.path),
        "layer": config.layer,
        "task": config.task,
        "seed": config.seed,
        "step": now.step,
        "cpu_seconds": round(now.cpu_seconds, 1),
        "validation": now.validation,
        **found.to_dict(),
    }


def show(run: Run, found: Measurement, *, as_json: bool) -> None:
    """Print a measurement of a run."""
    if as_json:
        print_json(summary(run, found))
        return
    lengths = run.config.lengths
    title = f"{run.config.layer} on {run.config.task}: accuracy on {found.n} test words of each length"
    console().print(accuracy_table(found, title=title, trained=(lengths.low, lengths.high)))


def _train(begin: Callable[[Observer], Run], config: TrainConfig, out: Path, options: OutputOptions) -> int:
    if options.tensorboard:
        TensorBoard.require()
    finished = train_shown(begin, config, out, tensorboard=options.tensorboard)
    if leads():
        lengths = options.test_lengths or finished.test_lengths
        show(finished, measure(finished, lengths), as_json=options.json)
        note(f"Run folder: {out}   (statetrack report {shlex.quote(str(out))} writes a page about it)")
    return 0


def _help() -> str:
    return "\n".join(
        [
            f"Usage: {PROG} LAYER TASK [options]     train into a new run folder",
            f"       {PROG} --resume RUN [options]   continue a run, bit for bit as if it had not stopped",
            "",
            f"  LAYER  {', '.join(layers)};",
            "         or several that alternate, as in 'aussm|mamba'",
            f"  TASK   {', '.join(tasks)}",
            "",
            f"{PROG} LAYER TASK --help lists every option with its default for that layer and task.",
        ]
    )
