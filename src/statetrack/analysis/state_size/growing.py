"""A state that grows while a model trains: an observer that measures how much of it is used and makes it larger when most is.

Growing changes no output at the step where it happens (``expand_model``), and the optimiser goes on with what it knows. That a
fuller state learns better is no theorem: growth answers a measurement, and the run's accuracy says whether it helped.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from statetrack.analysis.layer_inputs import layer_inputs
from statetrack.analysis.state_size.expansion import expand_model
from statetrack.analysis.state_size.slots import option_size, state_slots
from statetrack.analysis.state_use import effective_state_size, state_use
from statetrack.errors import InvalidInputError, RunError
from statetrack.layers import layer_options, names_of
from statetrack.layers.base import Layer
from statetrack.layers.diagonal_generators import checked
from statetrack.models import Tagger
from statetrack.tasks import stream
from statetrack.training import Run, TrainConfig
from statetrack.training.distributed import Workers
from statetrack.training.objective import Objective
from statetrack.training.run import build_model
from statetrack.training.trainer import Observer, Trainer

Measure = Literal["entropy rank", "effective"]

_FILE = "state_size.jsonl"


class ExpandableState:
    """An observer of training under which the states of a model grow.

    Every so many steps it measures what share of its state each layer uses. When the fullest one uses at least ``saturated`` of
    it, and the model is not there yet, every layer that can grow gets ``growth`` times as many states. A checkpoint that brings
    the new configuration along is written at once, so that the run can be opened and resumed as it is, whenever it stops.

    Args:
        every: steps between measurements.
        saturated: share of the state from which on it counts as full; no threshold is published.
        largest: most states per head, of the option ``d_state``.
        growth: factor by which states grow, above 1.
        solved: training accuracy on a batch from which on nothing grows; None for no such limit.
        measure: ``"entropy rank"`` of the states that are visited, or their ``"effective"`` size (what passes from past to
            future, which holds gates at their values).
        words: words that are measured, drawn once.
        observer: one that is called with every record too.

    Attributes:
        records: ``{"step", "d_state", "use", "grown"}`` of every measurement, also in ``state_size.jsonl``.

    Raises:
        InvalidInputError: a number out of range.
    """

    def __init__(
        self,
        every: int = 250,
        *,
        saturated: float = 0.8,
        largest: int = 256,
        growth: float = 2.0,
        solved: float | None = 0.999,
        measure: Measure = "entropy rank",
        words: int = 8,
        observer: Observer | None = None,
    ) -> None:
        checked("measure", measure, Measure)
        bounded = 0 < saturated <= 1 and (solved is None or 0 < solved <= 1)
        if min(every, largest, words) < 1 or not bounded or not growth > 1:
            raise InvalidInputError(
                "every, largest and words must be at least 1, saturated and solved lie in (0, 1] and growth above 1; got "
                f"{every}, {largest}, {words}, {saturated}, {solved} and {growth}."
            )
        self.every, self.saturated, self.largest, self.growth, self.solved = every, saturated, largest, growth, solved
        self.measure, self.words, self.observer = measure, words, observer
        self.records: list[dict[str, Any]] = []
        self._trainer: Trainer | None = None
        self._tokens: Tensor | None = None

    def watch(self, trainer: Trainer) -> None:
        """Observe a trainer in place of the observer it has, which goes on being called.

        Raises:
            InvalidInputError: a model none of whose layers can grow, with the reason.
        """
        _growing(trainer.model)
        self.observer = trainer.observer if self.observer is None else self.observer
        trainer.observer = self
        run = trainer.run
        length = max(run.config.lengths.high, run.task.min_length)
        self._tokens = run.task.held_out().sample(self.words, length, stream(run.config.seed, "validation", length)).inputs
        self._trainer = trainer

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one step."""
        if record["step"] % self.every == 0 and not record["finished"]:
            self._decide(record)
        if self.observer is not None:
            self.observer(record)

    def _decide(self, record: dict[str, Any]) -> None:
        if self._trainer is None or self._tokens is None:
            raise InvalidInputError("This state watches no training yet; call watch(trainer) or train_expandable.")
        model = self._trainer.model
        layers = _growing(model)
        size = max(option_size(layer) for layer in layers)
        use = self.used(model, self._tokens)
        wanted = min(self.largest, max(size + 1, round(size * self.growth)))
        solved = self.solved is not None and record["accuracy"] >= self.solved
        grown = max(use) >= self.saturated and not solved and wanted > size
        if grown:
            _grow(self._trainer, wanted - size)
        found = {"step": record["step"], "d_state": wanted if grown else size, "use": use, "grown": grown}
        self.records.append(found)
        path = self._trainer.run.path / _FILE
        try:
            with path.open("a", encoding="utf8") as file:
                file.write(json.dumps(found) + "\n")
        except OSError as error:
            raise RunError(f"Cannot write {path}: {error.strerror}.") from error

    def used(self, model: Tagger, tokens: Tensor) -> list[float]:
        """Share of its state that every layer which can grow uses on words ``(B, L)``; the model is left as it is."""
        random = torch.get_rng_state()
        shares = []
        for layer, x in zip(model.layers, layer_inputs(model, tokens), strict=True):
            if _reason(layer) is None:
                if self.measure == "effective":
                    shares.append(_or_zero(effective_state_size(layer, x).utilisation()))
                else:
                    use = state_use(layer, x)
                    shares.append(float(use.entropy_rank.mean()) / use.size)
        torch.set_rng_state(random)
        return shares


def train_expandable(config: TrainConfig, out: str, state: ExpandableState) -> Run:
    """``train`` with a state that grows; the run's configuration ends up with the size that it has grown to.

    Raises:
        RunError: the folder is in use, or the disk refuses.
        InvalidInputError: a configuration that cannot run, a model that cannot grow, or several processes.
    """
    workers = Workers.join()
    if workers.count > 1:
        raise InvalidInputError(f"A state can grow in one process only; this run has {workers.count}.")
    trainer = Trainer(Run.create(out, config), workers, None)
    state.watch(trainer)
    return trainer.train()


def _or_zero(share: float) -> float:
    """Words that are too short to measure anything show no use."""
    return 0.0 if math.isnan(share) else share


def _reason(layer: Layer) -> str | None:
    """Why a layer cannot grow, or None."""
    try:
        state_slots(layer)
    except InvalidInputError as error:
        return str(error)
    return None


def _growing(model: Tagger) -> list[Layer]:
    layers = [layer for layer in model.layers if _reason(layer) is None]
    if not layers:
        raise InvalidInputError(str(_reason(model.layers[0])))
    return layers


def _grow(trainer: Trainer, n: int) -> None:
    seed = trainer.progress.step
    if trainer.best is not None:
        held = build_model(trainer.config, trainer.run.task)
        held.load_state_dict(trainer.best)
        expand_model(held, n, seed=seed)
        trainer.best = held.state_dict()
    expand_model(trainer.model, n, trainer.optimizer, seed=seed)
    trainer.objective = Objective(trainer.model)
    config = trainer.config
    options = dict(config.model.layer)
    names = names_of(config.layer)
    for i, layer in enumerate(trainer.model.layers):
        if _reason(layer) is None:
            name = names[i % len(names)]
            prefix = f"{name}." if len(set(names)) > 1 else ""
            options[f"{prefix}d_state"] = option_size(layer)
            if "n_blocks" in layer_options(name):
                options[f"{prefix}n_blocks"] = 1
    trainer.config = trainer.run.config = replace(config, model=replace(config.model, layer=options))
    trainer.save(reconfigured=True)
