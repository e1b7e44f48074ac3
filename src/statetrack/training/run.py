"""A run: one folder with its configuration, metrics, checkpoints, results and report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import statetrack
from statetrack.errors import InvalidInputError, RunError
from statetrack.models import Tagger
from statetrack.tasks import Task, make_task
from statetrack.training.checkpoint import Progress, checkpoints, load_checkpoint
from statetrack.training.config import TrainConfig
from statetrack.training.evaluate import accuracy_at, evaluation_set, pooled_accuracy
from statetrack.training.files import read_json, write_json, write_text
from statetrack.training.revision import revision

_FORMAT = 1
_CHECKPOINTS = "checkpoints"


def build_model(config: TrainConfig, task: Task, attempt: int = 0) -> Tagger:
    """The model of a run with its initial weights; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(weights_seed(config, attempt))
        return Tagger(config.layer, task.vocab_size, task.n_classes, config.model)


def weights_seed(config: TrainConfig, attempt: int = 0) -> int:
    """Seed of a run's initial weights: torch's generator reads 32 bits, so seed and attempt are hashed into that many."""
    return int(np.random.SeedSequence([config.seed, attempt]).generate_state(1)[0])


class Run:
    """A run folder.

    Attributes:
        path: the folder.
        config: what was trained.

    Example:
        >>> run = Run.open("runs/x")  # doctest: +SKIP
        >>> run.evaluate([64, 256, 1000])  # doctest: +SKIP
        {'accuracy': {64: 1.0, 256: 1.0, 1000: 1.0}, 'n': 512, 'chance': 0.2, 'pooled': None}
    """

    def __init__(self, path: Path, config: TrainConfig) -> None:
        self.path, self.config = path, config

    @classmethod
    def create(cls, path: str | Path, config: TrainConfig, test_lengths: Sequence[int] = ()) -> Run:
        """A new folder for a configuration, without paths of files, and the lengths to test at.

        Raises:
            RunError: there is one already.
            InvalidInputError: a file of the task that cannot be read.
        """
        path = Path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} already exists. Continue it with --resume {path}, or choose another folder with --out.")
        config.validate()
        config = config.self_contained()
        run = cls(path, config)
        header = {"format": _FORMAT, "statetrack": statetrack.__version__, "revision": revision()}
        write_json(path / "config.json", {**header, "test_lengths": list(test_lengths), "config": config.to_dict()})
        return run

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run. Raises ``RunError`` if the folder holds none, or one of another version."""
        path = Path(path)
        if not (path / "config.json").exists():
            raise RunError(f"{path} is not a run folder: it has no config.json.")
        stored = read_json(path / "config.json")
        if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
            version = stored.get("statetrack", "unknown") if isinstance(stored, dict) else "unknown"
            raise RunError(
                f"{path} was written by statetrack {version}, whose run format this version "
                f"({statetrack.__version__}) cannot read."
            )
        try:
            return cls(path, TrainConfig.from_dict(_unsettled(path / _CHECKPOINTS) or stored.get("config")))
        except InvalidInputError as error:
            written = stored.get("statetrack", "an unknown version")
            raise RunError(f"{path / 'config.json'} (written by statetrack {written}) cannot be read: {error}") from error

    @cached_property
    def task(self) -> Task:
        """The run's task."""
        return make_task(self.config.task, **self.config.task_options)

    @property
    def revision(self) -> str:
        """The code the run was begun with."""
        return str(read_json(self.path / "config.json").get("revision", "unknown"))

    @property
    def test_lengths(self) -> tuple[int, ...]:
        """Lengths that its accuracy was asked for at, for when it is done; none means the usual ones."""
        return tuple(read_json(self.path / "config.json").get("test_lengths", ()))

    def plan_test(self, lengths: Sequence[int]) -> None:
        """Ask for other lengths. Raises ``RunError`` when the disk refuses."""
        path = self.path / "config.json"
        write_json(path, {**read_json(path), "test_lengths": list(lengths)})

    def settle(self) -> None:
        """Take over the configuration that the newest checkpoint brought along, if it did. Until then ``open`` reads that one.

        A run whose model changes its size writes the checkpoint first, so that a crash at any moment leaves weights and
        configuration that fit.

        Raises:
            RunError: the disk refuses.
        """
        path, found = self.path / "config.json", _unsettled(self.checkpoint_folder)
        if found is not None:
            write_json(path, {**read_json(path), "config": found})
            (self.latest_checkpoint() / "config.json").unlink(missing_ok=True)

    @property
    def checkpoint_folder(self) -> Path:
        """Where checkpoints lie."""
        return self.path / _CHECKPOINTS

    def latest_checkpoint(self) -> Path:
        """The newest complete checkpoint. Raises ``RunError`` if there is none."""
        found = checkpoints(self.checkpoint_folder)
        if not found:
            raise RunError(f"{self.path} has no checkpoint yet.")
        return found[-1]

    def progress(self) -> Progress:
        """Where the newest checkpoint stands."""
        return Progress.from_dict(read_json(self.latest_checkpoint() / "progress.json"))

    @property
    def finished(self) -> bool:
        """Whether training is over."""
        return bool(checkpoints(self.checkpoint_folder)) and self.progress().finished

    def load_model(self) -> Tagger:
        """The model of the newest checkpoint, in evaluation mode."""
        model = build_model(self.config, self.task)
        load_checkpoint(self.latest_checkpoint(), model)
        return model.eval()

    # -- metrics ---------------------------------------------------------------------------------------------------------------

    def log(self, record: dict[str, Any]) -> None:
        """Append one record to ``metrics.jsonl``."""
        try:
            with (self.path / "metrics.jsonl").open("a", encoding="utf8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise RunError(f"Cannot write {self.path / 'metrics.jsonl'}: {error.strerror}.") from error

    def metrics(self) -> list[dict[str, Any]]:
        """All records; a line that a crash cut short is left out."""
        path = self.path / "metrics.jsonl"
        records = []
        for line in path.read_text(encoding="utf8").splitlines() if path.exists() else []:
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
        return records

    def forget_after(self, step: int) -> None:
        """Drop records past a step, which a resumed run takes again."""
        kept = [json.dumps(record) + "\n" for record in self.metrics() if record["step"] <= step]
        write_text(self.path / "metrics.jsonl", "".join(kept))

    # -- results ---------------------------------------------------------------------------------------------------------------

    def evaluate(
        self, lengths: Sequence[int], *, n: int = 512, pooled: tuple[int, int] | None = None, n_pooled: int = 8192
    ) -> dict[str, Any]:
        """Accuracy on the test split, and remember it in ``evaluation.json``.

        Args:
            lengths: word lengths.
            n: words per length.
            pooled: also pool over words with uniform lengths in this range.
            n_pooled: number of pooled words.

        Returns:
            ``{"accuracy": {length: share}, "pooled": {"low", "high", "n", "accuracy"} or None, "chance": ..., "n": n}``.

        Raises:
            InvalidInputError: a length the task cannot make.
        """
        if n < 1 or n_pooled < 1:
            raise InvalidInputError(f"The number of words must be at least 1, got {min(n, n_pooled)}.")
        if min(*lengths, *(pooled or ()), 0) < 0:
            raise InvalidInputError(f"Lengths cannot be negative, got {min(*lengths, *(pooled or ()), 0)}.")
        model, seed = self.load_model(), self.config.seed
        accuracy = {length: accuracy_at(model, self.task, length, n, seed) for length in lengths}
        found: dict[str, Any] = {"accuracy": accuracy, "n": n, "chance": self.task.chance, "pooled": None}
        if pooled is not None:
            low, high = pooled
            batches = evaluation_set(self.task, low, high, n_pooled, seed, "test")
            found["pooled"] = {"low": low, "high": high, "n": n_pooled, "accuracy": pooled_accuracy(model, batches)}
        stored = self.evaluation()
        write_json(
            self.path / "evaluation.json",
            {
                "step": self.progress().step,
                "chance": self.task.chance,
                "accuracy": {**stored.get("accuracy", {}), **{str(length): share for length, share in accuracy.items()}},
                "n": {**stored.get("n", {}), **{str(length): n for length in accuracy}},
                "pooled": found["pooled"] or stored.get("pooled"),
            },
        )
        return found

    def evaluation(self) -> dict[str, Any]:
        """What ``evaluate`` has found about the present weights: step, chance, accuracy and n by length, pooled."""
        path = self.path / "evaluation.json"
        stored = read_json(path) if path.exists() else {}
        return stored if stored.get("step") == self.progress().step else {}


def _unsettled(folder: Path) -> Any:
    """The configuration that the newest checkpoint in a folder brought along, or None."""
    files = [path / "config.json" for path in checkpoints(folder)[-1:]]
    return read_json(files[0]) if files and files[0].exists() else None
