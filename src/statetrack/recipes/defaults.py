"""Settings that work, for a layer and a task that are named and nothing else.

What mattered, on words of 3 to 40 tokens with one label at the end: a curriculum from the shortest words on, which moves on
before a stage is perfect, because longer words punish what was merely memorised, and back when it falls apart; a new start
when that does not help; no additive input; several heads in place of one; dictionaries that start near permutations; and
``D = 1`` (``modulus="unit"``, ``d_field="real"``), which leaves the whole task to the selections, so that what is learnt holds
at every length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statetrack.layers import layers, names_of
from statetrack.models import ModelConfig
from statetrack.tasks import Task, make_task
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig

_SELECTIONS_ONLY: dict[str, Any] = {
    "dictionary_init": "permutation",
    "d_field": "real",
    "modulus": "unit",
    "additive_input": False,
}
_SELECTIVE = ("flash-pd-ssm", "pd-ssm")
_NONLINEAR = ("lstm", "rnn")
_SMALL = 8
"""Automata with at most this many states count as small."""


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
        layer: registered name of the layer, or several joined by ``|``.
        task: registered name of the task.
        seed: of initialisation, data and dropout.
        task_options: options of the task.
        layer_options: options of the layer, in place of ours.

    Raises:
        UnknownNameError: no such layer or task.
        InvalidInputError: task options that do not fit.
    """
    names = names_of(layer)
    task_options = dict(task_options or {})
    built = make_task(task, **task_options)
    if layer in _SELECTIVE:
        config = _selective(layer, task, built)
    else:
        config = _nonlinear(layer, task) if layer in _NONLINEAR else _other(layer, task, names)
    n_layers = max(config.model.n_layers, len(names))
    model = replace(config.model, n_layers=n_layers, layer={**config.model.layer, **(layer_options or {})})
    config = replace(config, model=replace(model, read_at=built.read_at), seed=seed, task_options=task_options)
    return replace(config, **_lengths(config, built))


def _lengths(config: TrainConfig, task: Task) -> dict[str, Any]:
    """The lengths of training and validation, made to fit what the task can make."""
    lengths, held_out = config.lengths, config.evaluation
    low = max(lengths.low, task.min_length)
    high = max(lengths.high, low)
    if task.read_at == "last":
        return {
            "lengths": replace(lengths, low=high, high=high, start=None),
            "evaluation": replace(held_out, low=high, high=high),
        }
    shortest = max(held_out.low, low)
    return {
        "lengths": replace(lengths, low=low, high=high, start=None if lengths.start is None else max(lengths.start, low)),
        "evaluation": replace(held_out, low=shortest, high=max(held_out.high, shortest)),
    }


def _selective(layer: str, task: str, built: Task) -> TrainConfig:
    states = built.automaton.n_states if built.automaton is not None else None
    letters = built.vocab_size - 1  # padding needs no selection of its own
    if states is not None and states <= _SMALL:
        small = {"d_state": 16, "n_heads": 4, "dictionary_size": max(8, letters)}
        return TrainConfig(
            layer,
            task,
            model=ModelConfig(d_model=32, n_layers=1, layer={**small, **_SELECTIONS_ONLY}),
            optim=OptimConfig(decay_steps=200),
            lengths=LengthConfig(start=4, threshold=0.9),
            evaluation=EvalConfig(every=100),
            steps=4000,
        )
    # As many places per head as the automaton has states, with room to spare: with half as many, learning takes far longer.
    large = {"d_state": max(64, states or 0), "n_heads": 8, "dictionary_size": max(12, letters), "dictionary_scale": 0.5}
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=64, n_layers=1, layer={**large, **_SELECTIONS_ONLY}),
        optim=OptimConfig(decay_steps=300),
        lengths=LengthConfig(start=4, threshold=0.9, retreat=0.7),
        evaluation=EvalConfig(every=100),
        steps=8_000,
        batch_size=256,
        restart_after=3000,
    )


def _nonlinear(layer: str, task: str) -> TrainConfig:
    # Strong weight decay drives their cells into saturation, where they keep what they track over any length.
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=32, n_layers=1, norm="none"),
        optim=OptimConfig(lr=5e-3, weight_decay=0.3, warmup=0.02, decay_steps=300),
        lengths=LengthConfig(start=4),
        evaluation=EvalConfig(every=100, stop_at=0.999),
        steps=8000,
    )


def _other(layer: str, task: str, names: tuple[str, ...]) -> TrainConfig:
    # Mamba keeps a state for every channel, so a step of it costs several times that of the others.
    width, steps = (32, 2000) if layer == "mamba" else (64, 3000)
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=width, n_layers=2, norm="pre", residual=True, layer=_needed(names)),
        optim=OptimConfig(decay_steps=300),
        lengths=LengthConfig(start=4),
        evaluation=EvalConfig(every=100),
        steps=steps,
    )


def _needed(names: tuple[str, ...]) -> dict[str, Any]:
    """The options that what is claimed of the layers supposes."""
    if len(set(names)) == 1:
        return dict(layers.get(names[0]).traits.needs)
    return {f"{name}.{key}": value for name in names for key, value in layers.get(name).traits.needs.items()}
