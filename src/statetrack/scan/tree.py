"""Associative scan: logarithmic depth, linear work, any structure, any device, differentiable by autograd.

Neighbours are composed into pairs, the half-length problem is solved by recursion, and the odd half is filled in between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.structures import Structure


def tree_scan(transitions: Structure, inputs: Tensor | None, initial_state: Tensor) -> tuple[Tensor, Tensor]:
    """Same contract as ``reference_scan``."""
    length = transitions.batch_shape[1]
    if length == 0:
        return initial_state.new_empty(initial_state.shape[0], 0, *initial_state.shape[1:]), initial_state
    first = transitions[:, :1].apply(initial_state.unsqueeze(1))
    if inputs is None:
        inputs = first.new_zeros(first.shape[0], length - 1, *first.shape[2:])
    else:
        first, inputs = first + inputs[:, :1], inputs[:, 1:]
    states = _prefix(transitions, torch.cat([first, inputs], dim=1))
    return states, states[:, -1]


def _prefix(a: Structure, b: Tensor) -> Tensor:
    """States of ``h_t = A_t h_{t-1} + b_t`` from ``h_0 = b_0``; the first transition is not used."""
    length = b.shape[1]
    if length == 1:
        return b
    even, odd = slice(0, length - 1, 2), slice(1, length, 2)
    a_odd, a_even = a[:, odd], a[:, even]
    states_odd = _prefix(a_odd.compose(a_even), a_odd.apply(b[:, even]) + b[:, odd])
    later = slice(2, length, 2)
    states_even = a[:, later].apply(states_odd[:, : b[:, later].shape[1]]) + b[:, later]
    return _interleave(torch.cat([b[:, :1], states_even], dim=1), states_odd)


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    """Positions 0, 2, ... from ``even`` and 1, 3, ... from ``odd`` along dimension 1."""
    paired = torch.stack([even[:, : odd.shape[1]], odd], dim=2).flatten(1, 2)
    return torch.cat([paired, even[:, odd.shape[1] :]], dim=1)
