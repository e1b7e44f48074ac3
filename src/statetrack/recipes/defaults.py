"""Settings that work, for a layer and a task that are named and nothing else."""

from __future__ import annotations

from typing import Any

from statetrack.layers import layers
from statetrack.models import ModelConfig
from statetrack.tasks import tasks
from statetrack.training import TrainConfig

_LAYER_OPTIONS: dict[str, dict[str, Any]] = {
    "flash-pd-ssm": {"d_state": 32, "n_heads": 2, "additive_input": False},
    "pd-ssm": {"d_state": 32, "n_heads": 2, "additive_input": False},
}


def default_config(
    layer: str,
    task: str,
    *,
    seed: int = 0,
    task_options: dict[str, Any] | None = None,
    layer_options: dict[str, Any] | None = None,
) -> TrainConfig:
    """The configuration of a run for which only the layer and the task are given.

    Args:
        layer: registered name of the layer.
        task: registered name of the task.
        seed: of initialisation, data and dropout.
        task_options: options of the task.
        layer_options: options of the layer, in place of ours.

    Raises:
        UnknownNameError: no such layer or task.
    """
    layers.get(layer), tasks.get(task)
    options = {**_LAYER_OPTIONS.get(layer, {}), **(layer_options or {})}
    return TrainConfig(layer, task, dict(task_options or {}), model=ModelConfig(layer=options), seed=seed)
