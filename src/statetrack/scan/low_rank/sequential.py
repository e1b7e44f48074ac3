"""The recurrence written out: one step after another.

S_i = Diag(w_i) S_{i-1} + x_i (y_i^T S_{i-1}) + k_i v_i^T ;   o_t = S^T q_t after the last step of token t
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor


class Factors(NamedTuple):
    """Arguments of ``low_rank_scan``, checked and in one dtype; None stands for what it says there."""

    q: Tensor
    k: Tensor
    v: Tensor
    x: Tensor | None
    y: Tensor
    log_decay: Tensor | None

    def tokens(self, start: int, stop: int, substeps: int) -> Factors:
        """Those of some tokens."""
        once, steps = slice(start, stop), slice(start * substeps, stop * substeps)
        q, k, v, x, y, log_decay = self
        late = None if log_decay is None else log_decay[:, once]
        return Factors(q[:, once], k[:, steps], v[:, steps], None if x is None else x[:, steps], y[:, steps], late)


def sequential_scan(factors: Factors, initial: Tensor, offsets: Tensor | None, substeps: int) -> tuple[Tensor, Tensor]:
    """Outputs ``(B, L, H, V)`` and final states ``(rows, H, K, V)``."""
    if offsets is None:
        return _run(factors, initial, substeps)
    outputs, finals = [factors.v[:, :0]], [initial[:0]]
    for s, (start, stop) in enumerate(pairwise(offsets.tolist())):
        part = factors.tokens(start, stop, substeps)
        o, final = _run(part, initial[s : s + 1], substeps)
        outputs.append(o)
        finals.append(final)
    return torch.cat(outputs, dim=1), torch.cat(finals)


def _run(factors: Factors, state: Tensor, substeps: int) -> tuple[Tensor, Tensor]:
    q, k, v, x, y, log_decay = factors
    x = -k if x is None else x
    steps = zip(*(t.unflatten(1, (q.shape[1], substeps)).unbind(1) for t in (k, v, x, y)), q.unbind(1), strict=True)
    decays = None if log_decay is None else log_decay.exp().view(*q.shape[:3], *log_decay.shape[3:] or (1,), 1).unbind(1)
    outputs = []
    for t, (k_t, v_t, x_t, y_t, q_t) in enumerate(steps):
        for i, (key, value, left, right) in enumerate(zip(*(s.unbind(1) for s in (k_t, v_t, x_t, y_t)), strict=True)):
            read = right.unsqueeze(-2) @ state
            kept = state if decays is None or i else decays[t] * state
            state = kept + left.unsqueeze(-1) * read + key.unsqueeze(-1) * value.unsqueeze(-2)
        outputs.append((q_t.unsqueeze(-2) @ state).squeeze(-2))
    return torch.stack(outputs, dim=1) if outputs else v, state
