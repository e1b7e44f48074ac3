"""Training a network on series: batches of similar lengths, AdamW, early stopping on a validation part."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from statetrack.errors import InvalidInputError, NumericalError
from statetrack.timeseries.backprop import Gradient, backpropagate, scores_of
from statetrack.timeseries.network import SeriesNet
from statetrack.timeseries.preprocessing import Tokens
from statetrack.training.config import OptimConfig
from statetrack.training.optim import learning_rate, make_optimizer, progress

Loss = Callable[[Tensor, Tensor], Tensor]
"""From scores ``(B, O)`` and targets ``(B,)`` to the mean loss."""

Score = Callable[[Tensor, Tensor], float]
"""From scores and targets of a whole set to what should be large."""

Observer = Callable[[dict[str, Any]], None]
"""Called after every pass with its record."""

_BATCHES_SORTED = 8
"""Batches that are sorted by length together, so that rows of one batch need little padding and still change company."""


class Examples(NamedTuple):
    """Attributes:
    tokens: of each series, ``(L, F)``.
    targets: ``(n,)`` class ids or numbers.
    """

    tokens: Tokens
    targets: Tensor


@dataclass(frozen=True)
class Plan:
    """How to train.

    Attributes:
        optim: optimiser and schedule (``"hold-decay"`` holds the learning rate all the way).
        batch_size: series per step.
        max_epochs: passes over the training part.
        patience: passes without a better validation score after which training stops; None never stops.
        gradient: of long series, see ``backprop``.
        chunk_size: tokens that are held at once.
        seed: of the order of series and of dropout.
        device: where to compute.
    """

    optim: OptimConfig
    batch_size: int
    max_epochs: int
    patience: int | None
    gradient: Gradient
    chunk_size: int
    seed: int
    device: torch.device

    def validate(self) -> None:
        """Raise ``InvalidInputError`` for values that no training can have."""
        whole = {"batch_size": self.batch_size, "max_epochs": self.max_epochs, "chunk_size": self.chunk_size}
        if self.patience is not None:
            whole["patience"] = self.patience
        for name, value in whole.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InvalidInputError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if not self.optim.lr > 0:
            raise InvalidInputError(f"lr must be positive; got {self.optim.lr!r}.")
        if not self.optim.weight_decay >= 0:
            raise InvalidInputError(f"weight_decay must be at least 0; got {self.optim.weight_decay!r}.")


def padded(tokens: list[npt.NDArray[np.float32]], device: torch.device) -> tuple[Tensor, Tensor]:
    """``(B, L, F)`` with zeros behind the end of each row, and lengths ``(B,)``."""
    lengths = [len(each) for each in tokens]
    x = np.zeros((len(tokens), max(lengths), tokens[0].shape[1]), np.float32)
    for row, each in zip(x, tokens, strict=True):
        row[: len(each)] = each
    return torch.from_numpy(x).to(device), torch.tensor(lengths, device=device)


def fit(
    net: SeriesNet,
    train: Examples,
    validation: Examples | None,
    loss: Loss,
    score: Score,
    plan: Plan,
    observer: Observer = lambda record: None,
) -> list[dict[str, Any]]:
    """Train in place; with a validation part the network ends with the weights of its best pass.

    Args:
        net: the network, on ``plan.device``.
        train: the training part.
        validation: held out; the best pass has the largest score on it, or of equal scores the smallest loss.
        loss: mean over a batch.
        score: of the validation part.
        plan: how.
        observer: gets each record.

    Returns:
        One record per pass: ``epoch``, ``loss``, ``seconds``, and with a validation part ``validation_score`` and
        ``validation_loss``.

    Raises:
        NumericalError: the loss is not finite.
        InvalidInputError: a plan that does not fit.
    """
    plan.validate()
    optimizer = make_optimizer(net, plan.optim)
    dropout = torch.Generator(device=plan.device)
    net.set_dropout(dropout)
    per_pass = -(-len(train.tokens) // plan.batch_size)
    steps = per_pass * plan.max_epochs
    history: list[dict[str, Any]] = []
    best, best_weights, best_epoch, began, step = (-math.inf, -math.inf), None, 0, time.perf_counter(), 0
    try:
        for epoch in range(1, plan.max_epochs + 1):
            net.train()
            total = 0.0
            for rows in batches(train.tokens.lengths, plan.batch_size, np.random.default_rng([plan.seed, epoch])):
                total += len(rows) * _step(net, train, rows, loss, plan, optimizer, dropout, (step, steps))
                step += 1
            record: dict[str, Any] = {"epoch": epoch, "loss": total / len(train.tokens)}
            if validation is not None:
                outputs = outputs_of(net, validation.tokens, plan)
                targets = validation.targets.to(plan.device)
                record["validation_score"] = score(outputs, targets)
                record["validation_loss"] = float(loss(outputs, targets))
                found = (record["validation_score"], -record["validation_loss"])
                if found > best:
                    best, best_epoch, best_weights = found, epoch, copy.deepcopy(net.state_dict())
            record["seconds"] = round(time.perf_counter() - began, 3)
            history.append(record)
            observer({**record, "max_epochs": plan.max_epochs, "best_epoch": best_epoch or epoch})
            if best_weights is not None and plan.patience is not None and epoch - best_epoch >= plan.patience:
                break
    finally:
        net.set_dropout(None)
        net.eval()
    if best_weights is not None:
        net.load_state_dict(best_weights)
    return history


def batches(lengths: list[int], batch_size: int, generator: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Every index once, in batches in random order; where lengths differ, the rows of a batch are of similar length."""
    order = generator.permutation(len(lengths))
    if min(lengths) < max(lengths):
        group, size = _BATCHES_SORTED * batch_size, np.asarray(lengths)
        order = np.concatenate([part[np.argsort(size[part])] for part in np.split(order, range(group, len(order), group))])
    parts = np.split(order, range(batch_size, len(order), batch_size))
    for i in generator.permutation(len(parts)):
        yield parts[i]


def outputs_of(net: SeriesNet, tokens: Tokens, plan: Plan) -> Tensor:
    """Scores ``(n, O)`` of all series, in their order."""
    net.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    outputs: list[Tensor | None] = [None] * len(tokens)
    for rows in np.split(order, range(plan.batch_size, len(order), plan.batch_size)):
        found = scores_of(net, *padded([tokens[i] for i in rows], plan.device), plan.chunk_size)
        for i, row in zip(rows, found, strict=True):
            outputs[i] = row
    return torch.stack([row for row in outputs if row is not None])


def _step(
    net: SeriesNet,
    train: Examples,
    rows: npt.NDArray[np.int64],
    loss: Loss,
    plan: Plan,
    optimizer: torch.optim.Optimizer,
    dropout: torch.Generator,
    position: tuple[int, int],
) -> float:
    """One step of the optimiser; returns the loss of its batch."""
    step, steps = position
    net.set_progress(progress(step, steps, None, plan.optim))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, steps, None, plan.optim)
    x, lengths = padded([train.tokens[i] for i in rows], plan.device)
    targets = train.targets[torch.from_numpy(rows)].to(plan.device)
    optimizer.zero_grad(set_to_none=True)
    value, _ = backpropagate(
        net,
        x,
        lengths,
        lambda scores: loss(scores, targets),
        gradient=plan.gradient,
        chunk_size=plan.chunk_size,
        dropout=dropout,
        seed=int(np.random.default_rng([plan.seed, step, 1]).integers(1 << 48)),
    )
    if not math.isfinite(float(value)):
        raise NumericalError(f"The loss is not finite at step {step + 1}; use a lower lr (now {plan.optim.lr}) or scaling.")
    if plan.optim.clip:
        torch.nn.utils.clip_grad_norm_(net.parameters(), plan.optim.clip)
    optimizer.step()
    return float(value)
