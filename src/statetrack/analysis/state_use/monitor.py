"""Watching the use of states while a model trains: an observer of training that measures fixed words every so many steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.layer_inputs import layer_inputs
from statetrack.analysis.state_use.covariance import state_use
from statetrack.analysis.state_use.effective_size import effective_state_size
from statetrack.errors import InvalidInputError, RunError
from statetrack.models import Tagger
from statetrack.tasks import stream
from statetrack.training import Run, TrainConfig
from statetrack.training.checkpoint import checkpoints
from statetrack.training.distributed import Workers
from statetrack.training.files import write_text
from statetrack.training.trainer import Observer, Trainer

_FILE = "state_use.jsonl"


class StateMonitor:
    """An observer of training that logs what ``state_use`` and ``effective_state_size`` say about every layer.

    Args:
        every: steps between measurements; the last step is always measured.
        words: words that are measured, drawn once from a random stream of their own.
        length: their length; None means the longest of training.
        observer: one that is called with every record too.

    Attributes:
        records: what was measured: ``{"step", "layers": [{"layer", "utilisation", **StateUse.to_dict()}]}``.

    Raises:
        InvalidInputError: a number below 1.
    """

    def __init__(self, every: int = 250, *, words: int = 4, length: int | None = None, observer: Observer | None = None) -> None:
        if min(every, words, 1 if length is None else length) < 1:
            raise InvalidInputError(f"every, words and length must be at least 1; got {every}, {words}, {length}.")
        self.every, self.words, self.length, self.observer = every, words, length, observer
        self.records: list[dict[str, Any]] = []
        self._model: Callable[[], Tagger] | None = None
        self._tokens: Tensor | None = None
        self._path: Path | None = None

    def watch(self, trainer: Trainer) -> None:
        """Observe a trainer in place of the observer it has, which goes on being called."""
        self.observer = trainer.observer if self.observer is None else self.observer
        trainer.observer = self
        run = trainer.run
        length = run.config.lengths.high if self.length is None else self.length
        batch = run.task.sample(self.words, max(length, run.task.min_length), stream(run.config.seed, "validation", length))
        path = run.path / _FILE
        if path.exists():  # a run that is resumed takes the steps after its checkpoint again
            self.records = [record for record in recorded(path) if record["step"] <= _reached(run)]
            write_text(path, "".join(json.dumps(record) + "\n" for record in self.records))
        self._model, self._tokens, self._path = lambda: trainer.model, batch.inputs, path

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one step."""
        if record["step"] % self.every == 0 or record["finished"]:
            self._measure(record["step"])
        if self.observer is not None:
            self.observer(record)

    def _measure(self, step: int) -> None:
        if self._model is None or self._tokens is None or self._path is None:
            raise InvalidInputError("This monitor watches no training yet; call watch(trainer) or train_monitored.")
        measured = {"step": step, "layers": measure_layers(self._model(), self._tokens)}
        self.records.append(measured)
        try:
            with self._path.open("a", encoding="utf8") as file:
                file.write(json.dumps(measured) + "\n")
        except OSError as error:
            raise RunError(f"Cannot write {self._path}: {error.strerror}.") from error


def recorded(path: Path) -> list[dict[str, Any]]:
    """The records of a ``state_use.jsonl``; a line that a crash cut short is left out."""
    records = []
    for line in path.read_text(encoding="utf8").splitlines():
        with suppress(ValueError):
            records.append(json.loads(line))
    return records


def measure_layers(model: Tagger, tokens: Tensor) -> list[dict[str, Any]]:
    """State use and utilisation of every layer of a model on words ``(B, L)``; the model is left as it is."""
    random = torch.get_rng_state()
    found = []
    for i, (layer, x) in enumerate(zip(model.layers, layer_inputs(model, tokens), strict=True)):
        utilisation = effective_state_size(layer, x).utilisation()
        found.append(
            {"layer": i + 1, "utilisation": None if utilisation != utilisation else utilisation, **state_use(layer, x).to_dict()}
        )
    torch.set_rng_state(random)
    return found


def train_monitored(config: TrainConfig, out: str | Path, monitor: StateMonitor, test_lengths: Sequence[int] = ()) -> Run:
    """``train`` under a monitor, which also writes ``state_use.jsonl`` into the run folder.

    Raises:
        RunError: the folder is in use, or the disk refuses.
        InvalidInputError: a configuration that cannot run.
    """
    workers = Workers.join()
    run = Run.create(out, config, test_lengths) if workers.leads else Run(Path(out), config)
    return _monitored(run, workers, monitor, resumed=False)


def resume_monitored(path: str | Path, monitor: StateMonitor) -> Run:
    """``resume`` under a monitor.

    Raises:
        RunError: no run of this version in that folder.
    """
    return _monitored(Run.open(path), Workers.join(), monitor, resumed=True)


def _monitored(run: Run, workers: Workers, monitor: StateMonitor, *, resumed: bool) -> Run:
    trainer = Trainer(run, workers, monitor.observer)
    if workers.leads:
        monitor.watch(trainer)
    return trainer.train(resumed=resumed)


def _reached(run: Run) -> int:
    return run.progress().step if checkpoints(run.checkpoint_folder) else 0
