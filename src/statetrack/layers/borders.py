"""First, last and next tokens of rows or of documents packed into one row.

Letters: B = rows, L = tokens, at least one; S = sequences: the rows, or the documents given by ``cu_seqlens (S + 1,)``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def first_tokens(x: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """``(S, ...)`` from ``x (B, L, ...)``: the first entry of every sequence, 0 for an empty one."""
    if cu_seqlens is None:
        return x[:, 0]
    starts = cu_seqlens[:-1].clamp(max=x.shape[1] - 1)
    return torch.where(_filled(cu_seqlens, x), x[0, starts], 0)


def last_tokens(x: Tensor, before: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """``(S, ...)`` from ``x (B, L, ...)``: the last entry of every sequence; for an empty one that of ``before (S, ...)``."""
    if cu_seqlens is None:
        return x[:, -1]
    return torch.where(_filled(cu_seqlens, x), x[0, (cu_seqlens[1:] - 1).clamp(min=0)], before)


def next_tokens(x: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """``x (B, L, ...)`` a place further to the front; 0 at the end of every sequence."""
    shifted = torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)
    if cu_seqlens is None:
        return shifted
    following = torch.arange(1, x.shape[1] + 1, device=x.device)
    ends = torch.isin(following, cu_seqlens).view(1, -1, *(1,) * (x.ndim - 2))
    return torch.where(ends, 0, shifted)


def _filled(cu_seqlens: Tensor, like: Tensor) -> Tensor:
    return (cu_seqlens.diff() > 0).view(-1, *(1,) * (like.ndim - 2))
