"""What a kernel is started with, kept apart from the start, so that the same launch can be compiled ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

WARP_STATES = 128
"""States that one warp holds. Up to here values move between lanes without shared memory or barriers."""

MAX_WARPS = 8

_CHUNKS = (128, 64, 32)
_ENOUGH = 4096
"""Programs that fill a large GPU: 128 multiprocessors with 32 one-warp blocks each."""

Argument = Tensor | int | None


@dataclass(frozen=True)
class Launch:
    """One start of a kernel.

    Attributes:
        kernel: the ``triton.jit`` function.
        grid: programs per axis.
        arguments: its arguments, complex tensors included.
        constants: its compile-time arguments.
        num_warps: warps per program.
    """

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Argument]
    constants: dict[str, Any]
    num_warps: int

    def __call__(self) -> None:
        """Start it on the device of its tensors; a grid without programs starts nothing."""
        if not all(self.grid):
            return
        arguments = {name: reals(x) if isinstance(x, Tensor) else x for name, x in self.arguments.items()}
        self.kernel[self.grid](**arguments, **self.constants, num_warps=self.num_warps, enable_fp_fusion=True)


def reals(x: Tensor) -> Tensor:
    """Complex numbers as pairs of reals."""
    return torch.view_as_real(x) if x.is_complex() else x


def rows_of(x: Tensor) -> Tensor:
    """``x`` without lazy conjugation and with neighbouring states next to each other; other strides stay as they are."""
    x = x.detach().resolve_conj().resolve_neg()
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def block_of(width: int) -> int:
    """Lanes for ``width`` states: the next power of two, at least 2."""
    return triton.next_power_of_2(max(width, 2))


def warps_of(block: int) -> int:
    """Warps per program."""
    return min(max(block // WARP_STATES, 1), MAX_WARPS)


def default_chunk(n_sequences: int, n_tokens: int, n_programs: int, packed: bool) -> int:
    """Tokens per chunk, from the sizes alone.

    Rows that fill the machine by themselves, and short ones, are walked in one piece, which reads the inputs once instead of
    twice. Otherwise chunks are as long as they can be with enough of them. ``n_programs`` is the number per token.
    """
    longest = n_tokens if packed else n_tokens // max(n_sequences, 1)
    if longest <= _CHUNKS[-1] or (not packed and n_sequences * n_programs >= _ENOUGH):
        return max(longest, 1)
    return next((c for c in _CHUNKS if n_tokens // c * n_programs >= _ENOUGH), _CHUNKS[-1])
