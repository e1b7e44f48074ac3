"""The recurrence written out: one token after another, for any structure and dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import torch
from torch import Tensor

from statetrack.structures import Structure


def reference_scan(transitions: Structure, inputs: Tensor | None, initial_state: Tensor) -> tuple[Tensor, Tensor]:
    """``h_t = A_t h_{t-1} + b_t`` for batch dimensions ``(B, L, H)``: states ``(B, L, H, N)`` and the final state ``(B, H,
    N)``."""
    h = initial_state
    states = []
    drives = [None] * transitions.batch_shape[1] if inputs is None else inputs.unbind(1)
    for transition, drive in zip(_tokens(transitions), drives, strict=True):
        h = transition.apply(h)
        if drive is not None:
            h = h + drive
        states.append(h)
    if not states:
        return h.new_empty(h.shape[0], 0, *h.shape[1:]), h
    return torch.stack(states, dim=1), h


def _tokens(transitions: Structure) -> Iterator[Structure]:
    """The transitions of every token. Fields are taken apart at once: the gradient of a slice is as large as the whole."""
    names = [field.name for field in fields(transitions)]
    for tensors in zip(*(getattr(transitions, name).unbind(1) for name in names), strict=True):
        yield type(transitions)(**dict(zip(names, tensors, strict=True)))
