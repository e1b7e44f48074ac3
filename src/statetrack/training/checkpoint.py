"""Checkpoints: a folder per step with weights and optimiser state (safetensors) and the rest (JSON), written atomically."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError, RunError
from statetrack.training.curriculum import Curriculum
from statetrack.training.files import new_folder, read_json, write_json
from statetrack.training.reading import from_plain

_KEEP = 2


@dataclass
class Progress:
    """Where a run stands, besides its weights.

    Attributes:
        step: steps taken.
        curriculum: the present stage.
        attempt: how often the weights were drawn anew.
        attempt_start: step at which the present weights were drawn.
        decay_start: step at which the last phase of ``"hold-decay"`` began.
        cpu_seconds: processor time spent on training and validation by this process.
        validation: last validation accuracy.
        best: best validation accuracy of those that count (see ``EvalConfig.keep``).
        annealed: share of the annealing by accuracy that is done.
        finished: whether training is over.
    """

    step: int
    curriculum: Curriculum
    attempt: int = 0
    attempt_start: int = 0
    decay_start: int | None = None
    cpu_seconds: float = 0.0
    validation: float | None = None
    best: float | None = None
    annealed: float = 0.0
    finished: bool = False

    @classmethod
    def from_dict(cls, data: Any) -> Progress:
        """The inverse of ``dataclasses.asdict``."""
        try:
            return from_plain(cls, data)
        except InvalidInputError as error:
            raise RunError(f"The checkpoint cannot be continued by this version of statetrack: {error}") from error


class Steps(Protocol):
    """What a checkpoint needs to know of a dataclass about where a run stands."""

    step: int


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    best: dict[str, Tensor] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """``write_checkpoint`` of a model and its optimiser."""
    return write_checkpoint(folder, model.state_dict(), moments_of(optimizer), progress, best, config)


def write_checkpoint(
    folder: Path,
    weights: dict[str, Tensor],
    moments: dict[str, Tensor],
    progress: Steps,
    best: dict[str, Tensor] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """Write ``folder/step-XXXXXXXX`` and drop all but the last two.

    Args:
        folder: of all checkpoints of the run.
        weights: of the model by name.
        moments: of the optimiser, see ``moments_of``.
        progress: a dataclass with the number of steps taken and whatever else the run has to remember.
        best: weights of the best validation so far.
        config: of the run, where the weights fit no longer what the run folder has (``Run.settle`` makes it the run's).

    Raises:
        RunError: the disk is full or refuses; earlier checkpoints are untouched.
    """
    from safetensors.torch import save_file

    path = folder / f"step-{progress.step:08d}"
    try:
        with new_folder(path) as temporary:
            save_file(_contiguous(weights), temporary / "model.safetensors")
            save_file(_contiguous(moments), temporary / "optimizer.safetensors")
            if best is not None:
                save_file(_contiguous(best), temporary / "best.safetensors")
            if config is not None:
                write_json(temporary / "config.json", config)
            write_json(temporary / "progress.json", asdict(progress))  # type: ignore[call-overload]
    except Exception as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        kept = [p.name for p in checkpoints(folder)]
        reason = error.strerror if isinstance(error, OSError) else error
        raise RunError(
            f"Cannot write the checkpoint of step {progress.step}: {reason}. Complete ones: {', '.join(kept) or 'none'}."
        ) from error
    for old in checkpoints(folder)[:-_KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Progress:
    """Restore weights, and the optimiser's state if one is given. Raises ``RunError`` when the files do not fit."""
    weights, moments = load_tensors(path)
    try:
        model.load_state_dict(weights)
        if optimizer is not None:
            moments_from(optimizer, moments)
    except (RuntimeError, KeyError, ValueError) as error:
        raise RunError(f"{path} does not fit the run's configuration: {str(error).splitlines()[0]}") from error
    return Progress.from_dict(read_json(path / "progress.json"))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and moments of a checkpoint. Raises ``RunError`` when a file is missing or damaged."""
    from safetensors.torch import load_file

    try:
        return load_file(path / "model.safetensors"), load_file(path / "optimizer.safetensors")
    except Exception as error:
        others = [p.name for p in checkpoints(path.parent) if p != path]
        remedy = f" Delete it to go on from {others[-1]}." if others else ""
        raise RunError(f"{path} is damaged: {error}.{remedy}") from error


def load_best(path: Path) -> dict[str, Tensor] | None:
    """Weights of the best validation up to a checkpoint, if it has them."""
    from safetensors.torch import load_file

    file = path / "best.safetensors"
    return load_file(file) if file.exists() else None


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def moments_of(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser as tensors named ``NUMBER_OF_PARAMETER.NAME``."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": tensor for i, entry in state.items() for name, tensor in entry.items()}


def moments_from(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give an optimiser the state that ``moments_of`` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
