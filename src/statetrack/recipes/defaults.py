"""Settings that work, for a layer and a task that are named and nothing else.

What mattered, on words of 3 to 40 tokens with one label at the end: a curriculum from the shortest words on; no additive
input; several small heads in place of one large; dictionaries that start near permutations; and ``D = 1``
(``modulus="unit"``, ``d_field="real"``), which leaves the whole task to the selections, so that what is learnt holds at
every length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statetrack.layers import layers
from statetrack.models import ModelConfig
from statetrack.tasks import tasks
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig

_SELECTIONS_ONLY: dict[str, Any] = {
    "d_state": 16,
    "n_heads": 4,
    "dictionary_size": 8,
    "dictionary_init": "permutation",
    "d_field": "real",
    "modulus": "unit",
    "additive_input": False,
}
_SELECTIVE = ("flash-pd-ssm", "pd-ssm")


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
    config = _selective(layer, task) if layer in _SELECTIVE else _other(layer, task)
    model = replace(config.model, layer={**config.model.layer, **(layer_options or {})})
    return replace(config, model=model, seed=seed, task_options=dict(task_options or {}))


def _selective(layer: str, task: str) -> TrainConfig:
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=32, n_layers=1, layer=dict(_SELECTIONS_ONLY)),
        optim=OptimConfig(decay_steps=200),
        lengths=LengthConfig(start=4),
        evaluation=EvalConfig(every=100),
        steps=4000,
    )


def _other(layer: str, task: str) -> TrainConfig:
    # Mamba keeps a state for every channel, so a step of it costs several times that of the others.
    width, steps = (32, 2000) if layer == "mamba" else (64, 3000)
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=width, n_layers=2, norm="pre", residual=True),
        optim=OptimConfig(schedule="cosine", lr=2e-3, warmup=0.1),
        lengths=LengthConfig(start=6),
        steps=steps,
    )
