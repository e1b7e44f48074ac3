"""Custom ops over the kernels: they compile under ``torch.compile(fullgraph=True)`` and carry their own backward.

Both ops take flat tokens: ``value (T, H, N)``, ``inputs (T, H, N)`` or None, ``initial (S, H, N)``; ``offsets (S + 1,)`` int64
for packed documents, None for equal rows; ``maps (R, N)`` int16 for one-hot forms, with ``routes (T, H)`` that pick among the
``R / H`` maps of a head, or one map for every token and head. Real values and inputs may be in half precision; all results of the
forward op are in the dtype of ``initial``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrack.scan.triton.credit import credit
from statetrack.scan.triton.passes import Form, Problem, backward, forward, run
from statetrack.scan.triton.selfcheck import verify
from statetrack.scan.triton.spans import chunk_count, spans


def _problem(
    value: Tensor,
    initial: Tensor,
    offsets: Tensor | None,
    maps: Tensor | None,
    routes: Tensor | None,
    form: Form,
    chunk: int,
) -> Problem:
    cut = spans(len(initial), len(value), chunk, offsets)
    maps = None if maps is None else maps.contiguous()
    routes = None if routes is None else routes.contiguous()
    return Problem(value.detach(), form, cut, initial.dtype, maps, routes)


def _plain(x: Tensor) -> Tensor:
    """Contiguous, without lazy conjugation."""
    return x.detach().resolve_conj().resolve_neg().contiguous()


@torch.library.custom_op("statetrack::triton_scan", mutates_args=())
def triton_scan(
    value: Tensor,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
    maps: Tensor | None,
    routes: Tensor | None,
    selection: Tensor | None,
    routing: Tensor | None,
    form: str,
    full: bool,
    chunk: int,
    recompute: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """States ``(T, H, N)``, final states ``(S, H, N)``, and with ``recompute`` the state that enters each chunk, else nothing.

    ``selection (H, K, N, N)`` and ``routing (T, H, K)`` are not read: they receive straight-through credit, ``full`` or that of
    what was chosen. Without ``routing`` the routes are given, and only the selection is credited.
    """
    problem = _problem(value, initial, offsets, maps, routes, form, chunk)  # type: ignore[arg-type]
    with torch.cuda.device_of(value):
        if value.is_cuda and not torch.cuda.is_current_stream_capturing():
            verify(problem)
        result = forward(problem, inputs, _plain(initial))
        run(result.launches)
    kept = recompute and not problem.sequences.single
    return result.states, result.final, result.carry if kept else problem.empty(0)


@torch.library.custom_op("statetrack::triton_scan_backward", mutates_args=())
def triton_scan_backward(
    value: Tensor,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
    maps: Tensor | None,
    routes: Tensor | None,
    states: Tensor | None,
    carry: Tensor | None,
    g_states: Tensor,
    g_final: Tensor,
    form: str,
    full: bool,
    chunk: int,
    inputs_dtype: torch.dtype | None,
    with_credit: bool,
    with_routing: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of value, inputs (empty without ``inputs_dtype``), initial state, selection and routing (empty unless wanted).

    Without ``states`` they are computed anew from ``carry``, and only then are ``inputs`` read.
    """
    problem = _problem(value, initial, offsets, maps, routes, form, chunk)  # type: ignore[arg-type]
    initial = _plain(initial)
    with torch.cuda.device_of(value):
        if states is None:
            again = forward(problem, inputs, initial, initial if problem.sequences.single else carry)
            run(again.launches)
            states = again.states
        dtype = initial.dtype if with_credit else inputs_dtype
        result = backward(problem, states, initial, g_states, _plain(g_final), dtype)
        run(result.launches)
        g_selection, g_routing = value.new_empty(0), value.new_empty(0)
        if with_credit and result.inputs is not None:
            choices = credit(problem, states, initial, result.inputs, full, with_routing)
            choices.launch()
            g_selection, g_routing = choices.selection(), choices.routing
        wanted = result.inputs is not None and inputs_dtype is not None
        g_inputs = result.inputs.to(inputs_dtype) if wanted else value.new_empty(0)  # type: ignore[union-attr]
        return result.value, g_inputs, result.initial, g_selection, g_routing


@triton_scan.register_fake
def _(value, inputs, initial, offsets, maps, routes, selection, routing, form, full, chunk, recompute):  # type: ignore[no-untyped-def]
    number, single = chunk_count(len(initial), len(value), chunk, offsets is not None)
    carry = initial.new_empty(number if recompute and not single else 0, *value.shape[1:])
    return initial.new_empty(value.shape), initial.new_empty(initial.shape), carry


@triton_scan_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    value,
    inputs,
    initial,
    offsets,
    maps,
    routes,
    states,
    carry,
    g_states,
    g_final,
    form,
    full,
    chunk,
    inputs_dtype,
    with_credit,
    with_routing,
):
    g_inputs = value.new_empty(0) if inputs_dtype is None else value.new_empty(value.shape, dtype=inputs_dtype)
    if with_credit:
        _, n_heads, n = value.shape
        n_entries, real = len(maps) // n_heads, initial.real.dtype
        g_selection = value.new_empty(n_heads, n_entries, n, n, dtype=real)
        g_routing = value.new_empty((*routes.shape, n_entries) if with_routing else (0,), dtype=real)
    else:
        g_selection, g_routing = value.new_empty(0), value.new_empty(0)
    return value.new_empty(value.shape), g_inputs, initial.new_empty(initial.shape), g_selection, g_routing


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    value, b, initial, offsets, maps, routes, selection, routing, ctx.form, ctx.full, ctx.chunk, recompute = inputs
    states, _, carry = output
    kept = (b, None, carry) if recompute else (None, states, None)
    ctx.save_for_backward(value, kept[0], initial, offsets, maps, routes, *kept[1:])
    ctx.inputs_dtype = None if b is None else b.dtype
    ctx.credited = selection is not None, routing is not None


def _gradients(ctx: Any, g_states: Tensor, g_final: Tensor, g_carry: Tensor) -> tuple[Tensor | None, ...]:
    wanted = ctx.needs_input_grad
    inputs_dtype = ctx.inputs_dtype if wanted[1] else None
    with_routing = ctx.credited[1] and wanted[7]
    with_credit = (ctx.credited[0] and wanted[6]) or with_routing
    options = ctx.form, ctx.full, ctx.chunk, inputs_dtype, with_credit, with_routing
    g_value, g_inputs, g_initial, g_selection, g_routing = triton_scan_backward(*ctx.saved_tensors, g_states, g_final, *options)
    choices = g_selection if with_credit else None, g_routing if with_routing else None
    return g_value, None if inputs_dtype is None else g_inputs, g_initial, None, None, None, *choices, *[None] * 4


triton_scan.register_autograd(_gradients, setup_context=_save)
