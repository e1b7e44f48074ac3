"""Custom ops over the loops: they compile under ``torch.compile(fullgraph=True)`` and carry their own backward.

All ops take flat tokens: ``value (T, H, N)``, ``inputs (T, H, N)`` or None, ``initial (S, H, N)``, ``offsets (S + 1,)``
int64. They return ``(states (T, H, N), final (S, H, N))``, and nothing they return shares memory with an argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrack.scan.cpu import loops
from statetrack.scan.cpu.memory import empty
from statetrack.scan.cpu.stretches import Row, n_stretches
from statetrack.scan.cpu.threads import over_ranges

Flat = np.ndarray[Any, Any]


def flat(x: Tensor | None, like: Tensor) -> Flat:
    """A contiguous one-dimensional view or copy; an empty array of the right dtype for None."""
    if x is None:
        x = like.new_empty(0)
    return x.detach().resolve_conj().contiguous().view(-1).numpy()


def as_reals(x: Tensor) -> Flat:
    """``flat``, with complex numbers as pairs."""
    x = x.detach().resolve_conj().contiguous()
    return (torch.view_as_real(x) if x.is_complex() else x).view(-1).numpy()


def map_table(maps: Tensor) -> Flat:
    """``(R, N)`` int16 maps as unsigned numbers, which spares the loops a test for negative indices."""
    return maps.contiguous().numpy().view(np.uint16)


def _owned(x: Tensor) -> Tensor:
    """A contiguous copy for the loops to write into."""
    return x.detach().resolve_conj().clone(memory_format=torch.contiguous_format)


def _scratch(states: Tensor, initial: Tensor, with_inputs: bool) -> Tensor:
    """Where the loops put the gradients of the states: one row per token, which are those of the inputs, or one per sequence."""
    like = states if with_inputs else initial
    return empty(like.shape, like.dtype)


@torch.library.custom_op("statetrack::diagonal_scan", mutates_args=())
def diagonal_scan(value: Tensor, inputs: Tensor | None, initial: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Diagonal recurrence."""
    _, n_heads, n = value.shape
    states, final = empty(value.shape, value.dtype), _owned(initial)
    d, b, ends, y, x = flat(value, value), flat(inputs, value), offsets.numpy(), flat(states, value), flat(final, value)
    over_ranges(
        len(initial) * n_heads,
        lambda lo, hi: loops.diagonal_forward(d, b, inputs is not None, ends, n_heads, n, y, x, lo, hi),
        value.numel(),
    )
    return states, final


@torch.library.custom_op("statetrack::diagonal_scan_backward", mutates_args=())
def diagonal_scan_backward(
    value: Tensor, states: Tensor, initial: Tensor, offsets: Tensor, g_states: Tensor, g_final: Tensor, with_inputs: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of value, inputs (empty unless asked for) and initial state."""
    _, n_heads, n = value.shape
    g_value, g_inputs, carry = empty(states.shape, states.dtype), _scratch(states, initial, with_inputs), _owned(g_final)
    d, x, x0, ends, g = flat(value, value), flat(states, value), flat(initial, value), offsets.numpy(), flat(g_states, value)
    c, out_d, out_b = flat(carry, value), flat(g_value, value), flat(g_inputs, value)
    over_ranges(
        len(initial) * n_heads,
        lambda lo, hi: loops.diagonal_backward(d, x, x0, ends, n_heads, n, g, c, out_d, out_b, with_inputs, lo, hi),
        value.numel(),
    )
    return g_value, g_inputs if with_inputs else value.new_empty(0), carry


@torch.library.custom_op("statetrack::one_hot_scan", mutates_args=())
def one_hot_scan(
    maps: Tensor, rows: Tensor, value: Tensor, inputs: Tensor | None, initial: Tensor, offsets: Tensor, column: bool
) -> tuple[Tensor, Tensor]:
    """One-hot recurrence; ``maps (R, N)`` int16, ``rows (T, H)`` int64 picks a map for each token and head.

    Empty ``rows`` mean that ``maps (T * H, N)`` has one for each.
    """
    _, n_heads, n = value.shape
    states, final = empty(value.shape, value.dtype), _owned(initial)
    table, pick = map_table(maps).reshape(-1), flat(rows, rows)
    d, b, ends, y, x = flat(value, value), flat(inputs, value), offsets.numpy(), flat(states, value), flat(final, value)
    n_threads = n_stretches(len(initial), n_heads, value.numel())
    if n_threads > 1:
        Row(column, table, pick, d, b, n_heads, n, n_threads).forward(inputs is not None, y, x)
        return states, final
    over_ranges(
        len(initial) * n_heads,
        lambda lo, hi: loops.one_hot_forward(column, table, pick, d, b, inputs is not None, ends, n_heads, n, y, x, lo, hi),
        value.numel(),
    )
    return states, final


@torch.library.custom_op("statetrack::one_hot_scan_backward", mutates_args=())
def one_hot_scan_backward(
    maps: Tensor,
    rows: Tensor,
    value: Tensor,
    states: Tensor,
    initial: Tensor,
    offsets: Tensor,
    column: bool,
    g_states: Tensor,
    g_final: Tensor,
    with_inputs: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of value, inputs (empty unless asked for) and initial state."""
    _, n_heads, n = value.shape
    g_value, g_inputs, carry = empty(states.shape, states.dtype), _scratch(states, initial, with_inputs), _owned(g_final)
    table, pick = map_table(maps).reshape(-1), flat(rows, rows)
    d, x, x0, ends, g = flat(value, value), flat(states, value), flat(initial, value), offsets.numpy(), flat(g_states, value)
    c, out_d, out_b = flat(carry, value), flat(g_value, value), flat(g_inputs, value)
    n_threads = n_stretches(len(initial), n_heads, value.numel())
    if n_threads > 1:
        walk = Row(column, table, pick, d, flat(None, value), n_heads, n, n_threads)
        walk.backward(x, x0, g, c, out_d, out_b if with_inputs else None)
        return g_value, g_inputs if with_inputs else value.new_empty(0), carry
    over_ranges(
        len(initial) * n_heads,
        lambda lo, hi: loops.one_hot_backward(
            column, table, pick, d, x, x0, ends, n_heads, n, g, c, out_d, out_b, with_inputs, lo, hi
        ),
        value.numel(),
    )
    return g_value, g_inputs if with_inputs else value.new_empty(0), carry


@diagonal_scan.register_fake
def _(value, inputs, initial, offsets):  # type: ignore[no-untyped-def]
    return torch.empty(value.shape, dtype=value.dtype), torch.empty(initial.shape, dtype=value.dtype)


@one_hot_scan.register_fake
def _(maps, rows, value, inputs, initial, offsets, column):  # type: ignore[no-untyped-def]
    return torch.empty(value.shape, dtype=value.dtype), torch.empty(initial.shape, dtype=value.dtype)


@diagonal_scan_backward.register_fake
def _(value, states, initial, offsets, g_states, g_final, with_inputs=True):  # type: ignore[no-untyped-def]
    return _fake_gradients(states, initial, with_inputs)


@one_hot_scan_backward.register_fake
def _(maps, rows, value, states, initial, offsets, column, g_states, g_final, with_inputs=True):  # type: ignore[no-untyped-def]
    return _fake_gradients(states, initial, with_inputs)


def _fake_gradients(states: Tensor, initial: Tensor, with_inputs: bool) -> tuple[Tensor, Tensor, Tensor]:
    g_inputs = torch.empty_like(states) if with_inputs else states.new_empty(0)
    return torch.empty_like(states), g_inputs, torch.empty(initial.shape, dtype=initial.dtype)


def _save_diagonal(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    value, b, initial, offsets = inputs
    ctx.save_for_backward(value, output[0], initial, offsets)
    ctx.has_inputs = b is not None


def _diagonal_gradients(ctx: Any, g_states: Tensor, g_final: Tensor) -> tuple[Tensor | None, ...]:
    g_value, g_inputs, g_initial = diagonal_scan_backward(*ctx.saved_tensors, g_states, g_final, ctx.has_inputs)
    return g_value, g_inputs if ctx.has_inputs else None, g_initial, None


def _save_one_hot(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    maps, rows, value, b, initial, offsets, ctx.column = inputs
    ctx.save_for_backward(maps, rows, value, output[0], initial, offsets)
    ctx.has_inputs = b is not None


def _one_hot_gradients(ctx: Any, g_states: Tensor, g_final: Tensor) -> tuple[Tensor | None, ...]:
    g_value, g_inputs, g_initial = one_hot_scan_backward(*ctx.saved_tensors, ctx.column, g_states, g_final, ctx.has_inputs)
    return None, None, g_value, g_inputs if ctx.has_inputs else None, g_initial, None, None


diagonal_scan.register_autograd(_diagonal_gradients, setup_context=_save_diagonal)
one_hot_scan.register_autograd(_one_hot_gradients, setup_context=_save_one_hot)
