"""The routed one-hot scan with straight-through credit: no tensor of size tokens x N x N, forward or backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrack.scan.cpu import credit_loops
from statetrack.scan.cpu.memory import empty
from statetrack.scan.cpu.ops import as_reals, flat, map_table, one_hot_scan, one_hot_scan_backward
from statetrack.scan.cpu.threads import over_ranges


def route_rows(dictionary: Tensor, route: Tensor) -> Tensor:
    """``(T, H)``: the row of each token's map in the flattened dictionary ``(H * K, N)``."""
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
    routing: Tensor | None,
    column: bool,
    full: bool,
) -> tuple[Tensor, Tensor]:
    """One-hot recurrence with maps ``dictionary (H, K, N)``; gradients also reach ``selection`` and, if given, ``routing``."""
    states, final = one_hot_scan(dictionary.flatten(0, 1), route_rows(dictionary, route), value, inputs, initial, offsets, column)
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
    routed: bool,
    g_states: Tensor,
    g_final: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of value, inputs, initial state, selection and routing (empty unless ``routed``)."""
    maps = dictionary.flatten(0, 1)
    g_value, g_inputs, g_initial = one_hot_scan_backward(
        maps, route_rows(dictionary, route), value, states, initial, offsets, column, g_states, g_final
    )
    credit = _Credit(dictionary, route, value, states, initial, offsets, column, g_inputs)
    g_selection, g_routing = credit.full(routed) if full else credit.active(routed)
    return g_value, g_inputs, g_initial, g_selection, g_routing


class _Credit:
    """Cotangents and states of all tokens, sorted by route, and what the choices get from them."""

    def __init__(
        self,
        dictionary: Tensor,
        route: Tensor,
        value: Tensor,
        states: Tensor,
        initial: Tensor,
        offsets: Tensor,
        column: bool,
        g_inputs: Tensor,
    ) -> None:
        self.column, self.shape = column, dictionary.shape
        n_heads, n_entries, n = dictionary.shape
        self.table = map_table(dictionary).reshape(-1)
        self.order = route.argsort(dim=0, stable=True)
        position = torch.empty_like(self.order)
        position.scatter_(0, self.order, torch.arange(len(route)).unsqueeze(1).expand_as(position))
        counts = torch.zeros(n_heads, n_entries, dtype=torch.int64).scatter_add_(1, route.mT, torch.ones_like(route.mT))
        ends = counts.cumsum(1)
        self.spans = torch.stack([ends - counts, ends], dim=-1)
        self.parts = n_parts = 2 if value.is_complex() else 1
        self.u, self.v = (empty((n_heads, len(route), n_parts, n), value.real.dtype) for _ in range(2))
        d, x, x0, g = (as_reals(tensor) for tensor in (value, states, initial, g_inputs))
        place, edges, u, v = flat(position, route), offsets.numpy(), flat(self.u, self.u), flat(self.v, self.v)
        over_ranges(
            len(initial) * n_heads,
            lambda lo, hi: credit_loops.credit_factors(column, n_parts, d, x, x0, edges, place, n_heads, n, g, u, v, lo, hi),
        )

    def full(self, routed: bool) -> tuple[Tensor, Tensor]:
        """Credit of every alternative: selection ``(H, K, N, N)`` and routing ``(T, H, K)``, empty unless ``routed``."""
        n_heads, n_entries, n = self.shape
        selection = self.u.new_zeros(n_heads, n_entries, n, n)
        for h, head in enumerate(self.spans.tolist()):
            for k, (first, last) in enumerate(head):
                if last > first:
                    left, right = (x[h, first:last].flatten(0, 1) for x in (self.u, self.v))
                    torch.mm(left.mT, right, out=selection[h, k])
        if not routed:
            return selection, self.u.new_empty(0)
        routing = self.u.new_empty(len(self.order), n_heads, n_entries)
        n_tiles = -(-len(self.order) // int(credit_loops.TILE))
        arguments = self._arguments(routing)
        over_ranges(n_heads * n_tiles, lambda lo, hi: credit_loops.full_routing_credit(*arguments, lo, hi))
        return selection, routing

    def active(self, routed: bool) -> tuple[Tensor, Tensor]:
        """Credit of what was chosen, in the same shapes."""
        n_heads, n_entries, n = self.shape
        routing = self.u.new_zeros(len(self.order), n_heads, n_entries)
        selection = self.u.new_zeros(n_heads, n_entries, n, n)
        column, table, *rest = self._arguments(routing)
        ends, out = flat(self.spans, self.spans), flat(selection, selection)
        over_ranges(n_heads * n_entries, lambda lo, hi: credit_loops.active_credit(column, table, ends, *rest, out, lo, hi))
        return selection, routing if routed else self.u.new_empty(0)

    def _arguments(self, routing: Tensor) -> tuple[Any, ...]:
        """What both loops take, in their order."""
        n_heads, n_entries, n = self.shape
        order = flat(self.order, self.order)
        u, v, out = (flat(x, x) for x in (self.u, self.v, routing))
        return self.column, self.table, n_entries, n, self.parts, order, n_heads, u, v, out


@routed_scan.register_fake
def _(dictionary, route, value, inputs, initial, offsets, selection, routing, column, full):  # type: ignore[no-untyped-def]
    return torch.empty(value.shape, dtype=value.dtype), torch.empty(initial.shape, dtype=value.dtype)


@routed_scan_backward.register_fake
def _(dictionary, route, value, states, initial, offsets, column, full, routed, g_states, g_final):  # type: ignore[no-untyped-def]
    n_heads, n_entries, n = dictionary.shape
    real = value.real.dtype
    g_selection = torch.empty(n_heads, n_entries, n, n, dtype=real)
    g_routing = torch.empty(*route.shape, n_entries, dtype=real) if routed else torch.empty(0, dtype=real)
    return torch.empty_like(states), torch.empty_like(states), torch.empty_like(initial), g_selection, g_routing


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    dictionary, route, value, b, initial, offsets, _, routing, ctx.column, ctx.full = inputs
    ctx.save_for_backward(dictionary, route, value, output[0], initial, offsets)
    ctx.has_inputs, ctx.routed = b is not None, routing is not None


def _gradients(ctx: Any, g_states: Tensor, g_final: Tensor) -> tuple[Tensor | None, ...]:
    g_value, g_inputs, g_initial, g_selection, g_routing = routed_scan_backward(
        *ctx.saved_tensors, ctx.column, ctx.full, ctx.routed, g_states, g_final
    )
    g_inputs = g_inputs if ctx.has_inputs else None
    g_routing = g_routing if ctx.routed else None
    return None, None, g_value, g_inputs, g_initial, None, g_selection, g_routing, None, None


routed_scan.register_autograd(_gradients, setup_context=_save)
