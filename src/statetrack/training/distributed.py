"""Data-parallel training under ``torchrun``: every process draws the same batch and works on its share of the rows."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.tasks import Batch


@dataclass(frozen=True)
class Workers:
    """The processes of a run.

    Attributes:
        rank: number of this process.
        count: number of processes.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def join(cls) -> Workers:
        """Join the process group that ``torchrun`` describes in the environment; alone without one."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        if not dist.is_initialized():
            # Optimisers import this module; imported later, with a group open, it would keep the group's threads alive beyond
            # `leave`, and a thread that outlives the interpreter aborts the process.
            importlib.import_module("torch._dynamo")
            # Gradients travel by NCCL, counts and votes, which lie in main memory, by gloo.
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        return cls(dist.get_rank(), count)

    @property
    def leads(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch:
        """The rows of this process."""
        if self.count == 1:
            return batch
        if len(batch.inputs) < self.count:
            raise InvalidInputError(f"batch_size {len(batch.inputs)} is smaller than the number of processes, {self.count}.")
        return Batch(*(tensor[self.rank :: self.count] for tensor in batch))

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over processes, in one message.

        The models trained here are small, so overlapping messages with the backward pass, as torch's wrapper does, would
        gain nothing, and that wrapper cannot be taken apart safely before the process group is closed.
        """
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.count == 1 or not gradients:
            return
        flat = self.total(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, summed in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(summed.view_as(gradient))

    def total(self, values: Tensor) -> Tensor:
        """Sum over processes."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait for all processes."""
        if self.count > 1:
            dist.barrier()

    def leave(self) -> None:
        """Close the process group; the last checkpoint made every process wait for the others."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
