"""Optimiser and schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from statetrack.training.config import OptimConfig


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of what requires gradients: weight matrices with decay; embeddings, vectors and the parameters of transitions
    (which layers name in ``float32_parameters``) without."""
    spared = set()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            spared |= {id(parameter) for parameter in module.parameters()}
        spared |= {id(getattr(module, name)) for name in getattr(module, "float32_parameters", ())}
    decay: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for parameter in (parameter for parameter in model.parameters() if parameter.requires_grad):
        (decay if parameter.ndim >= 2 and id(parameter) not in spared else free).append(parameter)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW over ``parameter_groups``."""
    groups = parameter_groups(model, config.weight_decay)
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2))


def cosine(fraction: float, first: float, last: float) -> float:
    """Half a cosine from ``first`` at 0 to ``last`` at 1."""
    return last + (first - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, fraction))))


def learning_rate(step: int, steps: int, decay_start: int | None, config: OptimConfig) -> float:
    """The learning rate of a step; ``decay_start`` is where the last phase of ``"hold-decay"`` begins, if it has."""
    warmup = max(1, round(config.warmup * steps))
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.schedule == "cosine":
        return cosine((step - warmup) / max(1, steps - warmup), config.lr, config.min_lr)
    if decay_start is None:
        return config.lr
    return cosine((step - decay_start) / config.decay_steps, config.lr, config.min_lr)


def progress(step: int, steps: int, decay_start: int | None, config: OptimConfig) -> float:
    """How far layers that anneal have got, in [0, 1]; exactly 1 before the last steps, so that these adapt to it."""
    if config.schedule == "cosine":
        fraction = (step / steps - config.anneal_from) / max(1e-9, 0.9 * (1 - config.anneal_from))
    else:
        fraction = 0.0 if decay_start is None else (step - decay_start) / (0.8 * config.decay_steps)
    return min(1.0, max(0.0, fraction))
