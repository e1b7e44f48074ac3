"""The scan in three phases, for diagonal, gathered and scattered transitions, forward and backward.

    1 composites   every chunk alone: the product of its transitions and what it makes of a zero state
    2 carries      chunk after chunk: the state that enters each
    3 replay       every chunk alone: from its carry through its tokens, writing what was asked for

Forward ``h <- A_t h + b_t`` from left to right. Backward ``c <- A_t^H (g_t + c)`` from right to left, ``g_t`` being the gradient
that reaches the state after token ``t`` from outside and ``c`` the one from later tokens. The adjoint of a scattered transition
is a gathered one along the same map, and the other way round, so that two walks serve both directions (PD-SSM, arXiv 2509.22284;
chunks as in Flash PD-SSM, arXiv 2605.19150).

Grids are (chunk or sequence, head); one program holds the states of one head, and diagonal scans take blocks of channels for
heads. The loads of a token are issued while the token before is worked on. Offsets are 64-bit and nothing is added atomically:
a result does not depend on the order in which programs run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from statetrack.scan.triton.arithmetic import load, multiply, store
from statetrack.scan.triton.maps import gather, move, read_map, scatter, write_plan
from statetrack.scan.triton.tokens import chunks_of, columns, span, state_before


@triton.jit
def composites(
    value,
    value_t,
    value_h,
    inputs,
    inputs_t,
    inputs_h,
    maps,
    source,
    last,
    whole,
    routes,
    entries,
    heads,
    channels,
    chunk,
    length,
    per_row,
    offsets,
    firsts,
    owners,
    out_index,
    out_source,
    out_last,
    out_whole,
    out_value,
    out_inputs,
    FORM: tl.constexpr,
    REVERSE: tl.constexpr,
    COMPLEX: tl.constexpr,
    ROUTED: tl.constexpr,
    PACKED: tl.constexpr,
    HAS_INPUTS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Phase 1: the map, the diagonal ``d`` and the affine part ``e`` of each chunk that another one follows."""
    ACC: tl.constexpr = out_value.dtype.element_ty
    item, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    _, begin, start, stop, end = span(item, chunk, length, per_row, offsets, firsts, owners, PACKED)
    needed = start > begin if REVERSE else stop < end
    if (start < stop) & needed:
        col, mask = columns(head, channels, FORM, WIDTH, BLOCK)
        p = col
        d_re, d_im = tl.full((BLOCK,), 1, ACC), tl.zeros((BLOCK,), ACC)
        e_re, e_im = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
        t = stop - 1 if REVERSE else start
        v_re, v_im = load(value, t * value_t + head * value_h, col, mask, COMPLEX, ACC)
        u_re, u_im = v_re, v_im
        if HAS_INPUTS:
            u_re, u_im = load(inputs, t * inputs_t + head * inputs_h, col, mask, COMPLEX, ACC)
        i, s, la, w = read_map(t, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, True, WIDTH)
        for step in range(1, stop - start + 1):
            at = t * value_t + head * value_h
            t = tl.maximum(stop - 1 - step, start) if REVERSE else tl.minimum(start + step, stop - 1)
            next_v_re, next_v_im = load(value, t * value_t + head * value_h, col, mask, COMPLEX, ACC)
            next_u_re, next_u_im = next_v_re, next_v_im
            if HAS_INPUTS:
                next_u_re, next_u_im = load(inputs, t * inputs_t + head * inputs_h, col, mask, COMPLEX, ACC)
            next_i, next_s, next_la, next_w = read_map(
                t, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, True, WIDTH
            )
            if FORM == "scatter":
                f_re, f_im = load(value, at, p, mask, COMPLEX, ACC)  # The row was just read: this comes from the cache.
                p = tl.gather(i, p, 0)
                d_re, d_im = multiply(f_re, f_im, d_re, d_im, REVERSE, COMPLEX)
            else:
                if FORM == "gather":
                    d_re, d_im = gather(d_re, d_im, i, COMPLEX)
                    p = tl.gather(p, i, 0)
                d_re, d_im = multiply(v_re, v_im, d_re, d_im, REVERSE, COMPLEX)
            if HAS_INPUTS:
                if REVERSE:
                    e_re, e_im = e_re + u_re, e_im + u_im
                e_re, e_im = move(e_re, e_im, v_re, v_im, i, s, la, w, FORM, REVERSE, COMPLEX)
                if not REVERSE:
                    e_re, e_im = e_re + u_re, e_im + u_im
            v_re, v_im, u_re, u_im = next_v_re, next_v_im, next_u_re, next_u_im
            i, s, la, w = next_i, next_s, next_la, next_w
        out = item * channels + head * WIDTH
        store(out_value, out, col, mask, d_re, d_im, COMPLEX)
        if HAS_INPUTS:
            store(out_inputs, out, col, mask, e_re, e_im, COMPLEX)
        if FORM == "gather":
            tl.store(out_index + out + col, p.to(tl.int16), mask=mask)
        if FORM == "scatter":
            write_plan(p, col, mask, item * heads + head, out_source, out_last, out_whole, WIDTH, BLOCK)


@triton.jit
def carries(
    initial,
    index,
    source,
    last,
    whole,
    value,
    inputs,
    heads,
    channels,
    per_row,
    firsts,
    out,
    FORM: tl.constexpr,
    REVERSE: tl.constexpr,
    COMPLEX: tl.constexpr,
    PACKED: tl.constexpr,
    HAS_INPUTS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Phase 2: ``out[chunk]``, the state that enters a chunk, from the composites of the chunks before it."""
    ACC: tl.constexpr = out.dtype.element_ty
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    first, stop = chunks_of(sequence, per_row, firsts, PACKED)
    col, mask = columns(head, channels, FORM, WIDTH, BLOCK)
    x_re, x_im = load(initial, sequence * channels + head * WIDTH, col, mask, COMPLEX, ACC)
    for step in range(0, stop - first):
        item = stop - 1 - step if REVERSE else first + step
        base = item * channels + head * WIDTH
        store(out, base, col, mask, x_re, x_im, COMPLEX)
        if step < stop - first - 1:
            d_re, d_im = load(value, base, col, mask, COMPLEX, ACC)
            i, s, la, w = read_map(item, head, col, mask, index, source, last, whole, index, heads, 1, FORM, False, False, WIDTH)
            x_re, x_im = move(x_re, x_im, d_re, d_im, i, s, la, w, FORM, False, COMPLEX)
            if HAS_INPUTS:
                e_re, e_im = load(inputs, base, col, mask, COMPLEX, ACC)
                x_re, x_im = x_re + e_re, x_im + e_im


@triton.jit
def replay(
    value,
    value_t,
    value_h,
    inputs,
    inputs_t,
    inputs_h,
    maps,
    source,
    last,
    whole,
    routes,
    entries,
    heads,
    channels,
    chunk,
    length,
    per_row,
    offsets,
    firsts,
    owners,
    carry,
    states,
    final,
    FORM: tl.constexpr,
    COMPLEX: tl.constexpr,
    ROUTED: tl.constexpr,
    PACKED: tl.constexpr,
    SINGLE: tl.constexpr,
    HAS_INPUTS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Phase 3 forward: the state after every token, and the final state of each sequence that has tokens.

    ``carry`` is the initial state of each sequence where no sequence has more than one chunk (``SINGLE``).
    """
    ACC: tl.constexpr = states.dtype.element_ty
    item, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, _, start, stop, end = span(item, chunk, length, per_row, offsets, firsts, owners, PACKED)
    if start < stop:
        col, mask = columns(head, channels, FORM, WIDTH, BLOCK)
        enters = sequence if SINGLE else item
        x_re, x_im = load(carry, enters * channels + head * WIDTH, col, mask, COMPLEX, ACC)
        v_re, v_im = load(value, start * value_t + head * value_h, col, mask, COMPLEX, ACC)
        u_re, u_im = v_re, v_im
        if HAS_INPUTS:
            u_re, u_im = load(inputs, start * inputs_t + head * inputs_h, col, mask, COMPLEX, ACC)
        i, s, la, w = read_map(
            start, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, False, WIDTH
        )
        for t in range(start, stop):
            n = tl.minimum(t + 1, stop - 1)
            next_v_re, next_v_im = load(value, n * value_t + head * value_h, col, mask, COMPLEX, ACC)
            next_u_re, next_u_im = next_v_re, next_v_im
            if HAS_INPUTS:
                next_u_re, next_u_im = load(inputs, n * inputs_t + head * inputs_h, col, mask, COMPLEX, ACC)
            next_i, next_s, next_la, next_w = read_map(
                n, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, False, WIDTH
            )
            x_re, x_im = move(x_re, x_im, v_re, v_im, i, s, la, w, FORM, False, COMPLEX)
            if HAS_INPUTS:
                x_re, x_im = x_re + u_re, x_im + u_im
            store(states, t * channels + head * WIDTH, col, mask, x_re, x_im, COMPLEX)
            v_re, v_im, u_re, u_im = next_v_re, next_v_im, next_u_re, next_u_im
            i, s, la, w = next_i, next_s, next_la, next_w
        if stop == end:
            store(final, sequence * channels + head * WIDTH, col, mask, x_re, x_im, COMPLEX)


@triton.jit
def replay_backward(
    value,
    value_t,
    value_h,
    cotangents,
    cotangents_t,
    cotangents_h,
    maps,
    source,
    last,
    whole,
    routes,
    entries,
    heads,
    channels,
    chunk,
    length,
    per_row,
    offsets,
    firsts,
    owners,
    states,
    initial,
    carry,
    g_value,
    g_inputs,
    g_initial,
    FORM: tl.constexpr,
    COMPLEX: tl.constexpr,
    ROUTED: tl.constexpr,
    PACKED: tl.constexpr,
    SINGLE: tl.constexpr,
    HAS_INPUTS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Phase 3 backward: gradients of the diagonal, of the inputs if they have one, and of the initial state.

    ``FORM`` is that of the adjoint: a column form scatters forward and gathers here.
    """
    ACC: tl.constexpr = states.dtype.element_ty
    item, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, begin, start, stop, _ = span(item, chunk, length, per_row, offsets, firsts, owners, PACKED)
    if start < stop:
        col, mask = columns(head, channels, FORM, WIDTH, BLOCK)
        enters = sequence if SINGLE else item
        c_re, c_im = load(carry, enters * channels + head * WIDTH, col, mask, COMPLEX, ACC)
        t = stop - 1
        v_re, v_im = load(value, t * value_t + head * value_h, col, mask, COMPLEX, ACC)
        u_re, u_im = load(cotangents, t * cotangents_t + head * cotangents_h, col, mask, COMPLEX, ACC)
        x_re, x_im = state_before(t, begin, sequence, head * WIDTH, channels, states, initial, col, mask, COMPLEX, ACC)
        i, s, la, w = read_map(t, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, True, WIDTH)
        for step in range(1, stop - start + 1):
            out = t * channels + head * WIDTH
            t = tl.maximum(stop - 1 - step, start)
            next_v_re, next_v_im = load(value, t * value_t + head * value_h, col, mask, COMPLEX, ACC)
            next_u_re, next_u_im = load(cotangents, t * cotangents_t + head * cotangents_h, col, mask, COMPLEX, ACC)
            next_x_re, next_x_im = state_before(
                t, begin, sequence, head * WIDTH, channels, states, initial, col, mask, COMPLEX, ACC
            )
            next_i, next_s, next_la, next_w = read_map(
                t, head, col, mask, maps, source, last, whole, routes, heads, entries, FORM, ROUTED, True, WIDTH
            )
            g_re, g_im = u_re + c_re, u_im + c_im
            if HAS_INPUTS:
                store(g_inputs, out, col, mask, g_re, g_im, COMPLEX)
            # Gradient and state that a source and its destination share.
            if FORM == "gather":
                g_re, g_im = gather(g_re, g_im, i, COMPLEX)
            if FORM == "scatter":
                x_re, x_im = gather(x_re, x_im, i, COMPLEX)
            d_re, d_im = multiply(x_re, x_im, g_re, g_im, True, COMPLEX)
            store(g_value, out, col, mask, d_re, d_im, COMPLEX)
            c_re, c_im = multiply(v_re, v_im, g_re, g_im, True, COMPLEX)
            if FORM == "scatter":
                c_re, c_im = scatter(c_re, c_im, s, la, w, COMPLEX)
            v_re, v_im, u_re, u_im, x_re, x_im = next_v_re, next_v_im, next_u_re, next_u_im, next_x_re, next_x_im
            i, s, la, w = next_i, next_s, next_la, next_w
        if start == begin:
            store(g_initial, sequence * channels + head * WIDTH, col, mask, c_re, c_im, COMPLEX)
