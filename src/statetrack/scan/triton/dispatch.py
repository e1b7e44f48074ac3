"""From transitions to the custom op that scans them."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.scan.triton.launch import WARP_STATES, default_chunk
from statetrack.scan.triton.ops import triton_scan
from statetrack.structures import ColumnOneHot, RoutedOneHot, RowOneHot, Structure


def scan_on_gpu(
    transitions: Structure | RoutedOneHot,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
    *,
    recompute: bool = False,
    chunk: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Scan transitions of batch shape ``(B, L, H)``; arguments are checked, ``initial`` has the dtype of the result.

    Args:
        transitions: diagonal, one-hot or routed; half precision is read as it is.
        inputs: ``(B, L, H, N)`` or None.
        initial: ``(S, H, N)``.
        offsets: ``(S + 1,)`` int64 for packed documents.
        recompute: keep the state that enters each chunk for the backward pass, and the inputs, instead of all states.
        chunk: tokens per chunk; None picks by size.

    Returns:
        States ``(B, L, H, N)`` and final states ``(S, H, N)``.
    """
    value = transitions.values
    n_rows, length, n_heads, n = value.shape
    d, b = value.flatten(0, 1), None if inputs is None else inputs.flatten(0, 1)
    maps = routes = selection = routing = None
    form, full, per_token = "diagonal", True, -(-n_heads * n // WARP_STATES)
    if isinstance(transitions, RoutedOneHot):
        form, full, per_token = transitions.orientation, transitions.full_credit, n_heads
        maps = transitions.dictionary.to(torch.int16).flatten(0, 1)
        routes = transitions.route.flatten(0, 1)
        if transitions.selection is not None:
            selection = transitions.selection
            routing = None if transitions.routing is None else transitions.routing.flatten(0, 1)
    elif isinstance(transitions, ColumnOneHot | RowOneHot):
        form, per_token = "column" if isinstance(transitions, ColumnOneHot) else "row", n_heads
        maps = transitions.index.expand(value.shape).to(torch.int16).flatten(0, 2)
    offsets = None if offsets is None else offsets.to(value.device)
    if chunk is None:
        chunk = default_chunk(len(initial), n_rows * length, per_token, offsets is not None)
    states, final, _ = triton_scan(d, b, initial, offsets, maps, routes, selection, routing, form, full, chunk, recompute)
    return states.unflatten(0, (n_rows, length)), final
