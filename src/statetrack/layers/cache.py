"""Caches that grow with every token, and packed documents laid out as rows; shared by the attention layers.

Letters: S = documents, T = cached tokens, L = new tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor


def filled_slots(cu_seqlens: Tensor) -> Tensor:
    """``(S, L)`` bool for documents packed one after another, L the longest of them: false behind the end of a shorter one."""
    lengths = cu_seqlens.diff().long()
    longest = int(lengths.max()) if len(lengths) else 0
    return torch.arange(longest, device=cu_seqlens.device) < lengths.unsqueeze(1)


def as_rows(packed: Tensor, present: Tensor) -> Tensor:
    """``(S, L, ...)`` from ``packed (1, N, ...)``, zero where ``present (S, L)`` is false; ``rows[present]`` undoes it."""
    return packed.new_zeros(*present.shape, *packed.shape[2:]).index_put((present,), packed[0])


def appended(old: Tensor, new: Tensor, position: Tensor, present: Tensor | None) -> Tensor:
    """``old (B, T, ...)`` with ``new (B, L, ...)`` written at ``position (B, L)``; absent slots become zero."""
    new = new.to(old.dtype)
    extra = (...,) + (None,) * (new.ndim - 2)
    if present is not None:
        new = new * present[extra]
    room = torch.cat([old, torch.zeros_like(new)], dim=1)
    return room.scatter(1, position[extra].expand(new.shape), new)
