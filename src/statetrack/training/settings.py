"""A configuration as one flat table of settings, spelt as on the command line, and what is checked before a run begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from statetrack.errors import InvalidInputError
from statetrack.layers import pattern_options
from statetrack.tasks import Task, make_task, task_options
from statetrack.training.config import TrainConfig
from statetrack.training.start import initial_model


def settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting of a run by its dotted name, with the defaults of the layer's and the task's options filled in.

    Example:
        >>> table = settings(TrainConfig("lstm", "parity"))
        >>> table["layer.d_state"], table["task.format"], table["optim.lr"]
        (64, 'slice', 0.002)
    """
    layer = {name: parameter.default for name, parameter in pattern_options(config.layer).items()} | config.model.layer
    task = {name: default for name, (_, default) in task_options(config.task).items()} | config.task_options
    table: dict[str, Any] = {"layer": config.layer, "task": config.task}
    table |= {f"task.{name}": value for name, value in task.items()} | {f"layer.{name}": value for name, value in layer.items()}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            table |= {f"{field.name}.{name}": entry for name, entry in vars(value).items() if name != "layer"}
        elif field.name not in ("layer", "task", "task_options"):
            table[field.name] = value
    return table


def differences(first: TrainConfig, second: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, each with both values."""
    a, b = settings(first), settings(second)
    return {name: (a.get(name), b.get(name)) for name in [*a, *(b.keys() - a.keys())] if a.get(name) != b.get(name)}


def check(config: TrainConfig, test_lengths: Sequence[int] = ()) -> None:
    """Build the task and the model once, so that what cannot run is refused before a folder is made.

    Args:
        config: the run.
        test_lengths: lengths that it will be tested at.

    Raises:
        UnknownNameError: no such layer, task or option.
        InvalidInputError: a value that does not fit, or lengths that the task cannot make.
    """
    config.validate()
    task = make_task(config.task, **config.task_options)
    for name, shortest in (("lengths.low", config.lengths.low), ("evaluation.low", config.evaluation.low)):
        if shortest < task.min_length:
            raise InvalidInputError(
                f"{name} is {shortest}, but the shortest length that {config.task!r} can make is {task.min_length}."
            )
    if config.evaluation.low > config.evaluation.high:
        raise InvalidInputError(f"evaluation.low {config.evaluation.low} lies above evaluation.high {config.evaluation.high}.")
    check_test_lengths(config.task, task, test_lengths)
    initial_model(config, task)


def check_test_lengths(name: str, task: Task, lengths: Sequence[int]) -> None:
    """Raise ``InvalidInputError`` for a length that a task cannot be tested at, which a run would find out only in the end."""
    if lengths and min(lengths) < task.min_length:
        raise InvalidInputError(
            f"Accuracy is asked for at length {min(lengths)}, but the shortest that {name!r} can make is {task.min_length}."
        )
