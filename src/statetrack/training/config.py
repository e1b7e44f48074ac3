"""Everything that determines a training run, as one frozen object that goes to ``config.json`` and back."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.models import ModelConfig
from statetrack.tasks import tasks
from statetrack.training.reading import from_plain

Schedule = Literal["cosine", "hold-decay"]
Init = Literal["random", "exact", "near-exact"]
Keep = Literal["best", "last"]
Order = Literal["together", "bottom-up"]


@dataclass(frozen=True)
class OptimConfig:
    """AdamW and its learning rate.

    Attributes:
        lr: peak learning rate.
        min_lr: learning rate at the end.
        weight_decay: on weight matrices; embeddings, biases, norms and the parameters of transitions are free of it.
        beta1: AdamW's first decay rate.
        beta2: AdamW's second decay rate.
        clip: largest norm of the whole gradient; 0 leaves it alone.
        warmup: share of ``steps`` with linear warm-up from 0.
        schedule: ``"cosine"`` decays from the end of the warm-up on; ``"hold-decay"`` holds the peak until the model has
            learnt (see ``EvalConfig.stop_at``) or the budget forces the end, then decays over ``decay_steps`` and
            finishes.
        decay_steps: length of the last phase of ``"hold-decay"``.
        anneal_from: with ``"cosine"``, the share of ``steps`` after which layers that anneal begin to; with ``"hold-decay"``
            they anneal during the first four fifths of the decay.
    """

    lr: float = 2e-3
    min_lr: float = 1e-5
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    warmup: float = 0.05
    schedule: Schedule = "hold-decay"
    decay_steps: int = 500
    anneal_from: float = 0.5


@dataclass(frozen=True)
class LengthConfig:
    """Lengths of the training words.

    Attributes:
        low: shortest.
        high: longest.
        start: longest length of the first stage of a curriculum; None trains on the whole range from the first step.
        growth: factor by which the longest length grows when a stage is learnt.
        threshold: running training accuracy at which a stage counts as learnt.
        retreat: running accuracy below which the longest length shrinks by ``growth`` again; 0 never does. Words much longer
            than what a model can follow undo what it has learnt.
        mixed: draw a length for each word; otherwise one for each batch.
    """

    low: int = 3
    high: int = 40
    start: int | None = 6
    growth: float = 1.5
    threshold: float = 0.95
    retreat: float = 0.0
    mixed: bool = True


@dataclass(frozen=True)
class EvalConfig:
    """What is measured while training; none of it is the test split.

    Attributes:
        every: steps between validations.
        low: shortest validation word.
        high: longest validation word.
        n: number of validation words.
        stop_at: validation accuracy at which training may end (``"cosine"``: at once; ``"hold-decay"``: the decay begins).
        keep: weights that a run ends with: ``"best"``, those of the best validation (the latest of equals; layers that anneal
            count from when they have), or ``"last"``.
    """

    every: int = 250
    low: int = 40
    high: int = 256
    n: int = 512
    stop_at: float = 0.995
    keep: Keep = "best"


@dataclass(frozen=True)
class AnnealConfig:
    """Annealing at the pace that a model stands, between learning and the decay of ``"hold-decay"``.

    It begins when the curriculum is learnt, goes on while the running training accuracy is high and back while it is low, and the
    last phase waits for its end. Without it, layers anneal by the clock (``OptimConfig.anneal_from``).

    Attributes:
        steps: steps that it takes at least; None anneals by the clock.
        advance_at: running accuracy from which it goes on.
        retreat_at: running accuracy below which it goes back, twice as fast.
        order: ``"together"``, or ``"bottom-up"``: a layer begins when the one below has ended, which then stays as it is.
        lr_factor: what the learning rate is multiplied by once it has begun.
    """

    steps: int | None = None
    advance_at: float = 0.985
    retreat_at: float = 0.96
    order: Order = "together"
    lr_factor: float = 1.0


@dataclass(frozen=True)
class TrainConfig:
    """A training run.

    Attributes:
        layer: registered name of the layer, or several joined by ``|``, which alternate.
        task: registered name of the task.
        task_options: options of the task.
        model: the stack.
        optim: optimiser and schedule.
        lengths: lengths and curriculum.
        evaluation: validation.
        anneal: annealing by accuracy.
        init: start from ``"random"`` weights, from the ``"exact"`` ones of ``statetrack.theory.construct``, or ``"near-exact"``.
        init_scale: noise of ``"near-exact"``, relative to the root mean square of each parameter's non-zero entries.
        seed: of initialisation, data and dropout.
        steps: most steps that may be taken.
        batch_size: words per step, over all processes.
        restart_after: draw new initial weights when the curriculum has not reached its longest words within that many steps;
            None never does. Only training accuracy is looked at, and all steps count towards ``steps``.
        checkpoint_every: steps between checkpoints.
        threads: CPU threads of each process.
    """

    layer: str
    task: str
    task_options: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    lengths: LengthConfig = field(default_factory=LengthConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    anneal: AnnealConfig = field(default_factory=AnnealConfig)
    init: Init = "random"
    init_scale: float = 0.01
    seed: int = 0
    steps: int = 3000
    batch_size: int = 128
    restart_after: int | None = None
    checkpoint_every: int = 500
    threads: int = 1

    def validate(self) -> None:
        """Raise ``InvalidInputError`` for values no run can have."""
        checked("schedule", self.optim.schedule, Schedule)
        checked("init", self.init, Init)
        checked("evaluation.keep", self.evaluation.keep, Keep)
        checked("anneal.order", self.anneal.order, Order)
        if not (math.isfinite(self.init_scale) and self.init_scale >= 0):
            raise InvalidInputError(f"init_scale must be finite and at least 0, got {self.init_scale}.")
        positive = {
            "steps": self.steps,
            "batch_size": self.batch_size,
            "checkpoint_every": self.checkpoint_every,
            "threads": self.threads,
            "lr": self.optim.lr,
            "evaluation.every": self.evaluation.every,
            "evaluation.n": self.evaluation.n,
            "decay_steps": self.optim.decay_steps,
            "anneal.steps": 1 if self.anneal.steps is None else self.anneal.steps,
            "anneal.lr_factor": self.anneal.lr_factor,
        }
        for name, value in positive.items():
            if not (value > 0 and math.isfinite(value)):
                raise InvalidInputError(f"{name} must be positive{' and finite' if value > 0 else ''}, got {value}.")
        if not 0 <= self.seed < 1 << 64:
            raise InvalidInputError(f"seed must lie in 0 .. 2**64 - 1, got {self.seed}.")
        if not 1 <= self.lengths.low <= self.lengths.high:
            raise InvalidInputError(f"lengths must satisfy 1 <= low <= high, got {self.lengths.low}..{self.lengths.high}.")
        one_length = self.lengths.low == self.lengths.high and self.evaluation.low == self.evaluation.high
        if self.model.read_at == "last" and not one_length:
            raise InvalidInputError(
                "A model that reads at the last position (read_at) needs lengths.low = lengths.high and the same of evaluation."
            )
        if self.lengths.start is not None and not self.lengths.low <= self.lengths.start:
            raise InvalidInputError(f"lengths.start {self.lengths.start} lies below lengths.low {self.lengths.low}.")
        if self.anneal.steps is not None and self.optim.schedule != "hold-decay":
            raise InvalidInputError(
                'anneal.steps needs the schedule "hold-decay"; "cosine" anneals by the clock (optim.anneal_from).'
            )
        if not 0 <= self.anneal.retreat_at <= self.anneal.advance_at <= 1:
            raise InvalidInputError(
                "anneal must satisfy 0 <= retreat_at <= advance_at <= 1, got "
                f"{self.anneal.retreat_at} and {self.anneal.advance_at}."
            )
        if not self.lengths.growth > 1:
            raise InvalidInputError(f"lengths.growth must exceed 1, got {self.lengths.growth}.")
        if not 0 <= self.optim.warmup < 1:
            raise InvalidInputError(f"warmup is a share of the steps in [0, 1), got {self.optim.warmup}.")

    def self_contained(self) -> TrainConfig:
        """The same with the contents of the task's files in place of their paths.

        Raises:
            InvalidInputError: a file that cannot be read.
        """
        return dataclasses.replace(self, task_options=tasks.get(self.task).self_contained(self.task_options))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> TrainConfig:
        """The inverse of ``to_dict``. Raises ``InvalidInputError`` for names or types this version does not know."""
        return from_plain(cls, data)
