"""The routed one-hot scan with straight-through credit: no tensor of size tokens x N x N, forward or backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrack.scan.cpu import credit_loops
from statetrack.scan.cpu.ops import flat, one_hot_scan, one_hot_scan_backward
from statetrack.scan.cpu.threads import over_ranges

_CREDIT_BLOCKS = 4
"""Partial sums of the dictionary's gradient. A constant, so that sums have the same order on any number of threads."""


def _rows(dictionary: Tensor, route: Tensor) -> Tensor:
    heads = torch.arange(dictionary.shape[0]) * dictionary.shape[1]
    return heads + route


@torch.library.custom_op("statetrack::routed_scan", mutates_args=())
def routed_scan(
    dictionary: Tensor,
    route: Tensor,
    value: Tensor,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor,
    selection: Tensor,
    routing: Tensor,
    column: bool,
    full: bool,
) -> tuple[Tensor, Tensor]:
    """One-hot recurrence with maps ``dictionary (H, K, N)``; gradients also reach ``selection`` and ``routing``."""
    states, final = one_hot_scan(dictionary.flatten(0, 1), _rows(dictionary, route), value, inputs, initial, offsets, column)
    return states, final


@torch.library.custom_op("statetrack::routed_scan_backward", mutates_args=())
def routed_scan_backward(
    dictionary: Tensor,
    route: Tensor,
    value: Tensor,
    states: Tensor,
    initial: Tensor,
    offsets: Tensor,
    column: bool,
    full: bool,
    g_states: Tensor,
    g_final: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of value, inputs, initial state, selection and routing."""
    n_heads, n_entries, n = dictionary.shape
    maps = dictionary.flatten(0, 1).contiguous()
    g_value, g_inputs, g_initial = one_hot_scan_backward(
        maps, _rows(dictionary, route), value, states, initial, offsets, column, g_states, g_final
    )
    blocks = max(1, min(_CREDIT_BLOCKS, len(initial)))
    real = value.real.dtype
    g_selection = torch.zeros(blocks, n_heads, n_entries, n, n, dtype=real)
    g_routing = torch.zeros(*route.shape, n_entries, dtype=real)
    table, pick = maps.numpy(), flat(route, route)
    d, x, x0, ends, g = flat(value, value), flat(states, value), flat(initial, value), offsets.numpy(), flat(g_inputs, value)
    out_p, out_r = g_selection.numpy(), g_routing.flatten(0, 1).numpy()
    over_ranges(
        blocks * n_heads,
        lambda lo, hi: credit_loops.routed_credit(
            column, full, value.is_complex(), table, pick, d, x, x0, ends, n_heads, n, g, out_p, out_r, lo, hi
        ),
    )
    return g_value, g_inputs, g_initial, g_selection.sum(0), g_routing


@routed_scan.register_fake
def _(dictionary, route, value, inputs, initial, offsets, selection, routing, column, full):  # type: ignore[no-untyped-def]
    return torch.empty(value.shape, dtype=value.dtype), torch.empty(initial.shape, dtype=value.dtype)


@routed_scan_backward.register_fake
def _(dictionary, route, value, states, initial, offsets, column, full, g_states, g_final):  # type: ignore[no-untyped-def]
    n_heads, n_entries, n = dictionary.shape
    real = value.real.dtype
    g_selection = torch.empty(n_heads, n_entries, n, n, dtype=real)
    g_routing = torch.empty(*route.shape, n_entries, dtype=real)
    return torch.empty_like(states), torch.empty_like(states), torch.empty_like(initial), g_selection, g_routing


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    dictionary, route, value, b, initial, offsets, _, _, ctx.column, ctx.full = inputs
    ctx.save_for_backward(dictionary, route, value, output[0], initial, offsets)
    ctx.has_inputs = b is not None


def _gradients(ctx: Any, g_states: Tensor, g_final: Tensor) -> tuple[Tensor | None, ...]:
    g_value, g_inputs, g_initial, g_selection, g_routing = routed_scan_backward(
        *ctx.saved_tensors, ctx.column, ctx.full, g_states, g_final
    )
    g_inputs = g_inputs if ctx.has_inputs else None
    return None, None, g_value, g_inputs, g_initial, None, g_selection, g_routing, None, None


routed_scan.register_autograd(_gradients, setup_context=_save)
