"""The kernel of straight-through credit; ``credit`` says what it computes."""

from __future__ import annotations

import triton
import triton.language as tl

from statetrack.scan.triton.arithmetic import load, multiply
from statetrack.scan.triton.tokens import span, state_before


@triton.jit
def _real_product(stay_re, stay_im, picked_re, picked_im, index, COMPLEX: tl.constexpr):
    """``Re(conj(u) v)`` state by state, one of the two picked along a map."""
    product = stay_re * tl.gather(picked_re, index, 0)
    if COMPLEX:
        product += stay_im * tl.gather(picked_im, index, 0)
    return product


@triton.jit
def credit_factors(
    value,
    value_t,
    value_h,
    g_inputs,
    maps,
    routes,
    place,
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
    out_u,
    out_v,
    out_routing,
    n_places,
    COLUMN: tl.constexpr,
    FULL: tl.constexpr,
    ROUTES: tl.constexpr,
    COMPLEX: tl.constexpr,
    PACKED: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sorted ``u`` and ``v``, and the credit of every route (``FULL``); or sorted ``Re(conj(u) v)`` at the ones of the chosen
    entry in ``out_v``, and the credit of the chosen route."""
    PARTS: tl.constexpr = 2 if COMPLEX else 1
    ACC: tl.constexpr = states.dtype.element_ty
    item, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, begin, start, stop, _ = span(item, chunk, length, per_row, offsets, firsts, owners, PACKED)
    col = tl.arange(0, BLOCK)
    mask = col < WIDTH
    for t in range(start, stop):
        token = t * channels + head * WIDTH
        d_re, d_im = load(value, t * value_t + head * value_h, col, mask, COMPLEX, ACC)
        g_re, g_im = load(g_inputs, token, col, mask, COMPLEX, ACC)
        x_re, x_im = state_before(t, begin, sequence, head * WIDTH, channels, states, initial, col, mask, COMPLEX, ACC)
        if COLUMN:
            # Along a column's map the cotangent is picked: states keep their place.
            u_re, u_im = g_re, g_im
            v_re, v_im = multiply(d_re, d_im, x_re, x_im, False, COMPLEX)
            stay_re, stay_im, picked_re, picked_im = v_re, v_im, u_re, u_im
        else:
            u_re, u_im = multiply(d_re, d_im, g_re, g_im, True, COMPLEX)
            v_re, v_im = x_re, x_im
            stay_re, stay_im, picked_re, picked_im = u_re, u_im, v_re, v_im
        own = tl.load(routes + t * heads + head).to(tl.int64)
        slot = (head * n_places + tl.load(place + t * heads + head)) * PARTS * WIDTH
        if FULL:
            tl.store(out_u + slot + col, u_re, mask=mask)
            tl.store(out_v + slot + col, v_re, mask=mask)
            if COMPLEX:
                tl.store(out_u + slot + WIDTH + col, u_im, mask=mask)
                tl.store(out_v + slot + WIDTH + col, v_im, mask=mask)
            if ROUTES:
                for k in range(0, entries):
                    index = tl.load(maps + (head * entries + k) * WIDTH + col, mask=mask, other=0).to(tl.int32)
                    product = _real_product(stay_re, stay_im, picked_re, picked_im, index, COMPLEX)
                    tl.store(out_routing + (t * heads + head) * entries + k, tl.sum(product, axis=0))
        else:
            index = tl.load(maps + (head * entries + own) * WIDTH + col, mask=mask, other=0).to(tl.int32)
            product = _real_product(stay_re, stay_im, picked_re, picked_im, index, COMPLEX)
            tl.store(out_v + slot // PARTS + col, product, mask=mask)
            if ROUTES:
                tl.store(out_routing + (t * heads + head) * entries + own, tl.sum(product, axis=0))
