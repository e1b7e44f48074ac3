"""Inputs that repeat: what a layer derives from a token alone has to be derived once for each distinct input.

Words over an alphabet hold few distinct inputs, and a selection costs far more than a step of the scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

_shared: ContextVar[bool] = ContextVar("shared", default=True)


@contextmanager
def every_token_alone() -> Iterator[None]:
    """While it is active, no two tokens share what is derived from their inputs, so that each gets a gradient of its own."""
    token = _shared.set(False)
    try:
        yield
    finally:
        _shared.reset(token)


class DistinctRows(NamedTuple):
    """Attributes:
    rows: ``(G, E)``, every distinct input once.
    which: ``(B, L)``, the row of each token.
    """

    rows: Tensor
    which: Tensor


def distinct_rows(u: Tensor, most: int) -> DistinctRows | None:
    """The distinct rows of ``u (B, L, E)``, or None if there are more than ``most``.

    Values are exact. A gradient of ``rows`` is divided evenly among the equal tokens: the sum, which is what an embedding or
    any other function of single tokens sees, is that of computing every token on its own. Within ``every_token_alone`` nothing
    is shared, and the answer is None.
    """
    if torch.compiler.is_compiling() or not _shared.get() or most < 1 or u.numel() == 0 or not torch.isfinite(u).all():
        return None
    flat = u.flatten(0, 1)
    weights = torch.linspace(1.0, 2.0, flat.shape[1], dtype=torch.float64, device=u.device)
    keys, index, counts = torch.unique(flat.detach().double() @ weights.sin(), return_inverse=True, return_counts=True)
    if len(keys) > most:
        return None
    first = torch.full((len(keys),), len(flat), device=u.device).scatter_reduce_(
        0, index, torch.arange(len(flat), device=u.device), "amin"
    )
    rows = flat.detach()[first]
    if not torch.equal(rows[index], flat.detach()):  # different inputs with the same key
        return None
    if flat.requires_grad:
        mean = torch.zeros_like(rows).index_add(0, index, flat) / counts.unsqueeze(1)
        rows = rows + (mean - mean.detach())
    return DistinctRows(rows, index.unflatten(0, u.shape[:2]))
