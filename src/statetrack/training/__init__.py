"""Training: a resumable loop, curricula over lengths, evaluation per length, run folders."""

from statetrack.training.config import AnnealConfig, EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.run import Run, build_model
from statetrack.training.start import constructed
from statetrack.training.trainer import Observer, resume, train

__all__ = [
    "AnnealConfig",
    "EvalConfig",
    "LengthConfig",
    "Observer",
    "OptimConfig",
    "Run",
    "TrainConfig",
    "build_model",
    "constructed",
    "resume",
    "train",
]
