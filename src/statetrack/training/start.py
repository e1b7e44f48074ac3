"""Where training starts: random weights, or the weights of a construction, exact or with noise on them.

A construction fixes the whole stack, so a run that starts from one has that stack (``constructed`` fills it in). A start near
exact weights tells apart what a layer can express and what training finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from statetrack.errors import InvalidInputError
from statetrack.layers import pattern_options
from statetrack.models import ModelConfig, Tagger
from statetrack.tasks import Task, make_task
from statetrack.theory.construct import ExactTagger, construct, near_exact
from statetrack.theory.construct.tagger import FREE
from statetrack.training.config import TrainConfig
from statetrack.training.run import build_model, weights_seed

_UNSEEN = -1000.0
"""Bias of classes that the automaton never emits."""


def constructed(config: TrainConfig) -> TrainConfig:
    """The configuration with the stack of the construction for its layer and task; dropout and what reads positions stay.

    Raises:
        InvalidInputError: the library has no construction for the layer and the task.
    """
    exact = _exact(config, make_task(config.task, **config.task_options))
    return replace(config, model=replace(exact.config, dropout=config.model.dropout, read_at=config.model.read_at))


def initial_model(config: TrainConfig, task: Task, attempt: int = 0) -> Tagger:
    """The model that a run trains, as ``config.init`` says.

    Raises:
        InvalidInputError: no construction for the layer and the task, or a stack that is not that of the construction.
    """
    if config.init == "random":
        return build_model(config, task, attempt)
    exact = _exact(config, task)
    _refuse_another_stack(config, exact.config)
    scale = config.init_scale if config.init == "near-exact" else 0.0
    weights = near_exact(exact, scale, torch.Generator().manual_seed(weights_seed(config, attempt))).state_dict()
    missing = task.n_classes - exact.n_classes
    if missing:
        head = weights["head.weight"]
        weights["head.weight"] = torch.cat([head, head.new_zeros(missing, head.shape[1])])
        weights["head.bias"] = torch.cat([weights["head.bias"], head.new_full((missing,), _UNSEEN)])
    model = build_model(config, task, attempt)
    model.load_state_dict(weights)
    return model


def _exact(config: TrainConfig, task: Task) -> ExactTagger:
    if "|" in config.layer:
        raise InvalidInputError(f"init={config.init!r} needs a stack of one layer; got {config.layer!r}.")
    if task.automaton is None:
        raise InvalidInputError(f"init={config.init!r} needs a task with an automaton; {config.task!r} has none.")
    try:
        return construct(config.layer, task.automaton)
    except InvalidInputError as error:
        raise InvalidInputError(f"init={config.init!r} is not possible for {config.layer} on {config.task}: {error}") from error


def _refuse_another_stack(config: TrainConfig, exact: ModelConfig) -> None:
    wanted, given = (_settings(config.layer, model) for model in (exact, config.model))
    wrong = [f"{name}={value!r} (got {given[name]!r})" for name, value in wanted.items() if given[name] != value]
    if wrong:
        raise InvalidInputError(
            f"init={config.init!r} needs the stack of the construction: {', '.join(wrong)}. "
            "statetrack.training.constructed(config) fills it in, and so does statetrack train without these options."
        )


def _settings(layer: str, model: ModelConfig) -> dict[str, Any]:
    """What the stack of a construction fixes, with the defaults of the layer filled in."""
    options = {name: parameter.default for name, parameter in pattern_options(layer).items()} | model.layer
    table = {name: getattr(model, name) for name in ("d_model", "n_layers", "norm", "residual", "feedforward")}
    return table | {f"layer.{name}": value for name, value in options.items() if name not in FREE}
