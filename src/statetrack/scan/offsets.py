"""Offsets of documents that are packed one after another into a batch of one row."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError


def checked_offsets(cu_seqlens: Tensor, n_rows: int, length: int) -> Tensor:
    """``cu_seqlens`` as int64.

    Raises:
        InvalidInputError: a batch of more than one row, or offsets that do not rise from 0 to ``length``.
    """
    if not isinstance(cu_seqlens, Tensor):
        raise InvalidInputError(f"cu_seqlens must be a tensor of offsets, got a {type(cu_seqlens).__name__}.")
    if n_rows != 1:
        raise InvalidInputError(f"cu_seqlens describes documents packed into one row; got a batch of {n_rows}.")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < 1 or cu_seqlens.is_floating_point():
        raise InvalidInputError(f"cu_seqlens needs shape (documents + 1,) and an integer dtype, got {tuple(cu_seqlens.shape)}.")
    offsets = cu_seqlens.long()
    if torch.compiler.is_compiling():  # values are not known then
        return offsets
    if offsets[0] != 0 or offsets[-1] != length or (offsets.diff() < 0).any():
        raise InvalidInputError(f"cu_seqlens must rise from 0 to the packed length {length}, got {offsets.tolist()[:8]}...")
    return offsets


def states_before(states: Tensor, initial: Tensor, offsets: Tensor | None) -> Tensor:
    """What stood before every token, of what stands after it ``(B, L, ...)``: ``initial (S, ...)`` before the first of each
    sequence."""
    if offsets is None:
        return torch.cat([initial.unsqueeze(1), states[:, :-1]], dim=1) if states.shape[1] else states
    before = torch.roll(states, 1, dims=1)
    nonempty = offsets[1:] > offsets[:-1]
    before[0, offsets[:-1][nonempty]] = initial[nonempty]
    return before
