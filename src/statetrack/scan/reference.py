"""The recurrence written out: one token after another, for any structure and dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.structures import Structure


def reference_scan(transitions: Structure, inputs: Tensor | None, initial_state: Tensor) -> tuple[Tensor, Tensor]:
    """``h_t = A_t h_{t-1} + b_t`` for batch dimensions ``(B, L, H)``: states ``(B, L, H, N)`` and the final state ``(B, H,
    N)``."""
    h = initial_state
    states = []
    for t in range(transitions.batch_shape[1]):
        h = transitions[:, t].apply(h)
        if inputs is not None:
            h = h + inputs[:, t]
        states.append(h)
    if not states:
        return h.new_empty(h.shape[0], 0, *h.shape[1:]), h
    return torch.stack(states, dim=1), h
