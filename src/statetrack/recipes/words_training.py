"""Training a reader of sentences on a fixed set of stories: what of the model requires gradients, on stories that grow longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from statetrack.layers import Layer
from statetrack.tasks import stream
from statetrack.training.checkpoint import checkpoints, load_tensors, moments_from, moments_of, write_checkpoint
from statetrack.training.config import LengthConfig, OptimConfig
from statetrack.training.curriculum import Curriculum
from statetrack.training.files import read_json
from statetrack.training.optim import learning_rate, make_optimizer, progress
from statetrack.training.reading import from_plain

if TYPE_CHECKING:
    from statetrack.integrations.hf.reader import SentenceReader, Stories


@dataclass(frozen=True)
class Training:
    """Attributes:
    steps: of training.
    batch_size: stories of a step, drawn with replacement.
    lengths: sentences of a story, with their curriculum.
    optim: optimiser and schedule.
    every: steps between checkpoints.
    """

    steps: int
    batch_size: int
    lengths: LengthConfig
    optim: OptimConfig
    every: int = 200


@dataclass
class Position:
    """Where a training stands.

    Attributes:
        step: steps taken.
        curriculum: the present stage.
        cpu_seconds: processor time spent.
    """

    step: int
    curriculum: Curriculum
    cpu_seconds: float = 0.0


def train_reader(
    reader: SentenceReader,
    stories: Stories,
    training: Training,
    folder: Path | None = None,
    observer: Callable[[str], None] = lambda line: None,
) -> Position:
    """Train what requires gradients, on beginnings of the stories.

    Args:
        reader: is trained in place.
        stories: each at least ``training.lengths.high`` sentences long.
        training: how.
        folder: of checkpoints; a training that was stopped goes on from the last one, as if it never had been.
        observer: is told of each checkpoint.

    Returns:
        Where it ended.
    """
    optimizer = make_optimizer(reader, training.optim)
    trained = {name: parameter for name, parameter in reader.named_parameters() if parameter.requires_grad}
    layers = [module for module in reader.modules() if isinstance(module, Layer)]
    position = _position(folder, trained, optimizer, training)
    reader.train()
    began = time.process_time() - position.cpu_seconds
    for step in range(position.step, training.steps):
        for layer in layers:
            layer.set_progress(progress(step, training.steps, None, training.optim))
        generator = stream(0, "train", step)
        lengths = position.curriculum.draw(training.batch_size, training.lengths, generator)
        rows = generator.integers(0, len(stories.ends), size=training.batch_size)
        loss, accuracy = reader.loss(stories.pick(rows.tolist()).begin(lengths.tolist()))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, training.steps, None, training.optim)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if training.optim.clip:
            torch.nn.utils.clip_grad_norm_(trained.values(), training.optim.clip)
        optimizer.step()
        position.curriculum.update(accuracy, training.lengths)
        position.step, position.cpu_seconds = step + 1, time.process_time() - began
        if folder is not None and (position.step % training.every == 0 or position.step == training.steps):
            write_checkpoint(folder, dict(trained), moments_of(optimizer), position)
            stage = position.curriculum
            observer(f"step {position.step}: {100 * stage.accuracy:.0f} % of stories up to {int(stage.longest)} sentences")
    for layer in layers:
        layer.set_progress(1.0)
    return position


def _position(folder: Path | None, trained: dict[str, Any], optimizer: torch.optim.Optimizer, training: Training) -> Position:
    """The beginning, or where the last checkpoint left off, whose weights are put in place."""
    found = [] if folder is None else checkpoints(folder)
    if not found:
        return Position(0, Curriculum.begin(training.lengths))
    weights, moments = load_tensors(found[-1])
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(weights[name])
    moments_from(optimizer, moments)
    return from_plain(Position, read_json(found[-1] / "progress.json"))
