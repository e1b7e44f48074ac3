"""How processes share a model: whole copies whose gradients are summed, or shards of every parameter (FSDP2).

Checkpoints hold whole tensors in either case, so a run may go on with another number of processes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from statetrack.training.checkpoint import moments_from, moments_of
from statetrack.training.distributed import Workers

Tensors = dict[str, Tensor]


class Copies:
    """Every process holds the whole model.

    Attributes:
        gradient_scale: factor on the loss that makes summed gradients those of the whole batch.
    """

    gradient_scale = 1.0

    def __init__(self, model: nn.Module, workers: Workers) -> None:
        self.model, self.workers = model, workers

    def sum_gradients(self) -> None:
        """After ``backward``: gradients of the whole batch on every process."""
        self.workers.sum_gradients(self.model.parameters())

    def gather(self, optimizer: torch.optim.Optimizer) -> tuple[Tensors, Tensors]:
        """Whole weights and moments; a weight that two names share appears once. All processes have to call it."""
        weights: Tensors = {}
        seen = set()
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                weights[name] = _whole(tensor)
        return weights, {name: _whole(tensor) for name, tensor in moments_of(optimizer).items()}

    def load_moments(self, optimizer: torch.optim.Optimizer, moments: Tensors) -> None:
        """Give an optimiser the moments that ``gather`` returned."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        placed = {name: self._placed(tensor, parameters[int(name.split(".")[0])]) for name, tensor in moments.items()}
        moments_from(optimizer, placed)

    def _placed(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        return tensor


class Shards(Copies):
    """Every process holds a shard of each parameter, gradient and moment; blocks are gathered one at a time."""

    def __init__(self, model: nn.Module, workers: Workers) -> None:
        super().__init__(model, workers)
        blocks: Any = model.get_submodule("model.layers")
        for block in blocks:
            fully_shard(block)
        fully_shard(model)
        self.gradient_scale = float(workers.count)

    def sum_gradients(self) -> None:
        """FSDP2 has averaged them already; ``gradient_scale`` makes up for that."""

    def _placed(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        if tensor.ndim == 0 or not isinstance(parameter, DTensor):
            return tensor
        return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)


def shard(model: nn.Module, how: str, workers: Workers) -> Copies:
    """``"ddp"`` or ``"fsdp"``; alone, a process holds the whole model in either case."""
    return Shards(model, workers) if how == "fsdp" and workers.count > 1 else Copies(model, workers)


def _whole(tensor: Tensor) -> Tensor:
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().cpu().contiguous()
