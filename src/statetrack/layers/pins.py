"""Pinned eigenvalues: entries of a diagonal held at exactly 1, which keep everything, and at exactly 0, which keep nothing.

    a = [1 ... 1; learned; 0 ... 0]

Source: Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and Over-smoothing (arXiv
2501.00658), which pins logs of the decay at 0 and -1000 times the time step; here zeros are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from statetrack.structures import Diagonal


@dataclass(frozen=True)
class Pins:
    """How many entries are pinned along the last dimension.

    Attributes:
        ones: at the front, held at 1.
        zeros: at the back, held at 0.
    """

    ones: int = 0
    zeros: int = 0

    def around(self, learned: Tensor, zero: Tensor | None = None) -> Diagonal:
        """A diagonal with pinned entries on both sides of learned ones.

        Args:
            learned: ``(..., N)``.
            zero: ``(..., 1)``, what stands for 0; None means 0.
        """
        shape = learned.shape[:-1]
        one = learned.new_ones(()).expand(*shape, self.ones)
        zero = learned.new_zeros(*shape, 1) if zero is None else zero
        return Diagonal(torch.cat([one, learned, zero.expand(*shape, self.zeros)], dim=-1))

    def on(self, diagonal: Diagonal) -> Diagonal:
        """The diagonal with its first and last entries pinned; itself where there are no pins."""
        return self.around(self._learned(diagonal.value)) if self.ones or self.zeros else diagonal

    def on_logs(self, log_decay: Tensor) -> Tensor:
        """The same for logs of decays ``(..., N)``."""
        if not (self.ones or self.zeros):
            return log_decay
        shape = log_decay.shape[:-1]
        kept, lost = log_decay.new_zeros(*shape, self.ones), log_decay.new_full((*shape, self.zeros), -math.inf)
        return torch.cat([kept, self._learned(log_decay), lost], dim=-1)

    def _learned(self, entries: Tensor) -> Tensor:
        return entries[..., self.ones : entries.shape[-1] - self.zeros]
