"""The kernels of the fused generator; ``generator`` says what they compute.

Programs of a block of tokens are numbered along the second axis: first blocks of channels, which make ``D`` and ``b``, then
heads, which route. All arithmetic is in the precision of ``D``; projections are read as they are.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1 + small)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def _store_pairs(base, place, mask, re, im):
    """Complex numbers as pairs of reals."""
    part = tl.arange(0, 2)
    tl.store(base + 2 * place[:, :, None] + part[None, None, :], tl.join(re, im), mask=mask[:, :, None])


@triton.jit
def _load_pairs(base, place, mask, ACC: tl.constexpr):
    part = tl.arange(0, 2)
    pair = tl.load(base + 2 * place[:, :, None] + part[None, None, :], mask=mask[:, :, None], other=0.0).to(ACC)
    return tl.split(pair)


@triton.jit
def _token_rows(n_tokens, ROWS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    return row, row < n_tokens


@triton.jit
def _logits_of(logits, row, there, head, heads, entries, ENTRIES: tl.constexpr, ACC: tl.constexpr):
    """Scores of the entries for a block of tokens, their places and which of them exist."""
    entry = tl.arange(0, ENTRIES)
    place = (row[:, None] * heads + head) * entries + entry[None, :]
    mask = there[:, None] & (entry < entries)[None, :]
    return tl.load(logits + place, mask=mask, other=-float("inf")).to(ACC), place, mask


@triton.jit
def generate(
    decay,
    rate,
    phase,
    drive,
    logits,
    value,
    inputs,
    route,
    routing,
    n_tokens,
    channels,
    heads,
    entries,
    HAS_DECAY: tl.constexpr,
    HAS_RATE: tl.constexpr,
    HAS_DRIVE: tl.constexpr,
    CREDITED: tl.constexpr,
    COMPLEX: tl.constexpr,
    RISING: tl.constexpr,
    TURNS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """``value`` and ``inputs (T, S)``, ``route (T, H)`` and with ``CREDITED`` its one-hot form ``routing (T, H, K)``."""
    ACC: tl.constexpr = value.dtype.element_ty
    row, there = _token_rows(n_tokens, ROWS)
    n_blocks = tl.cdiv(channels, BLOCK)
    job = tl.program_id(1)
    if job < n_blocks:
        col = job * BLOCK + tl.arange(0, BLOCK)
        mask = there[:, None] & (col < channels)[None, :]
        place = row[:, None] * channels + col[None, :]
        modulus = tl.full((ROWS, BLOCK), 1, ACC)
        if HAS_DECAY:
            x = tl.load(decay + place, mask=mask, other=0.0).to(ACC)
            if HAS_RATE:
                speed = tl.load(rate + col, mask=col < channels, other=0.0).to(ACC)
                modulus = tl.exp(-speed[None, :] * _softplus(-x if RISING else x))
            else:
                modulus = _sigmoid(x if RISING else -x)
        if COMPLEX:
            angle = tl.load(phase + place, mask=mask, other=0.0).to(ACC)
            if TURNS:
                angle = 6.283185307179586 * _sigmoid(angle)
            _store_pairs(value, place, mask, modulus * tl.cos(angle), modulus * tl.sin(angle))
        else:
            tl.store(value + place, modulus, mask=mask)
        if HAS_DRIVE:
            if COMPLEX:
                first = row[:, None] * (2 * channels) + col[None, :]
                re = tl.load(drive + first, mask=mask, other=0.0).to(ACC)
                im = tl.load(drive + first + channels, mask=mask, other=0.0).to(ACC)
                _store_pairs(inputs, place, mask, re, im)
            else:
                tl.store(inputs + place, tl.load(drive + place, mask=mask, other=0.0).to(ACC), mask=mask)
    else:
        head = (job - n_blocks).to(tl.int64)
        score, slot, real = _logits_of(logits, row, there, head, heads, entries, ENTRIES, ACC)
        best = tl.argmax(score, axis=1, tie_break_left=True)
        tl.store(route + row * heads + head, best.to(tl.int64), mask=there)
        if CREDITED:
            tl.store(routing + slot, (best[:, None] == tl.arange(0, ENTRIES)[None, :]).to(ACC), mask=real)


@triton.jit
def generate_backward(
    decay,
    rate,
    phase,
    logits,
    temperature,
    value,
    g_value,
    g_inputs,
    g_routing,
    g_decay,
    g_rate,
    g_phase,
    g_drive,
    g_logits,
    n_tokens,
    channels,
    heads,
    entries,
    HAS_DECAY: tl.constexpr,
    HAS_RATE: tl.constexpr,
    HAS_DRIVE: tl.constexpr,
    COMPLEX: tl.constexpr,
    RISING: tl.constexpr,
    TURNS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """Gradients of the projections; ``g_rate (token blocks, S)`` has the share of every block of tokens."""
    ACC: tl.constexpr = value.dtype.element_ty
    row, there = _token_rows(n_tokens, ROWS)
    n_blocks = tl.cdiv(channels, BLOCK)
    job = tl.program_id(1)
    if job < n_blocks:
        col = job * BLOCK + tl.arange(0, BLOCK)
        mask = there[:, None] & (col < channels)[None, :]
        place = row[:, None] * channels + col[None, :]
        if COMPLEX:
            re, im = _load_pairs(value, place, mask, ACC)
            g_re, g_im = _load_pairs(g_value, place, mask, ACC)
            g_log = re * g_re + im * g_im
            g_angle = re * g_im - im * g_re
            if TURNS:
                turn = _sigmoid(tl.load(phase + place, mask=mask, other=0.0).to(ACC))
                g_angle *= 6.283185307179586 * turn * (1 - turn)
            tl.store(g_phase + place, g_angle, mask=mask)
        else:
            g_log = tl.load(value + place, mask=mask, other=0.0) * tl.load(g_value + place, mask=mask, other=0.0)
        if HAS_DECAY:
            x = tl.load(decay + place, mask=mask, other=0.0).to(ACC)
            x = -x if RISING else x
            if HAS_RATE:
                speed = tl.load(rate + col, mask=col < channels, other=0.0).to(ACC)
                share = tl.sum(tl.where(mask, -g_log * _softplus(x), 0.0), axis=0)
                tl.store(g_rate + tl.program_id(0).to(tl.int64) * channels + col, share, mask=col < channels)
                g_log *= speed[None, :]
            slope = g_log * _sigmoid(x)
            tl.store(g_decay + place, slope if RISING else -slope, mask=mask)
        if HAS_DRIVE:
            if COMPLEX:
                first = row[:, None] * (2 * channels) + col[None, :]
                b_re, b_im = _load_pairs(g_inputs, place, mask, ACC)
                tl.store(g_drive + first, b_re, mask=mask)
                tl.store(g_drive + first + channels, b_im, mask=mask)
            else:
                tl.store(g_drive + place, tl.load(g_inputs + place, mask=mask, other=0.0), mask=mask)
    else:
        tau = tl.load(temperature)
        head = (job - n_blocks).to(tl.int64)
        score, slot, real = _logits_of(logits, row, there, head, heads, entries, ENTRIES, ACC)
        best = tl.where(there, tl.max(score, axis=1), 0.0)
        soft = tl.where(real, tl.exp((score - best[:, None]) / tau), 0.0)
        soft /= tl.maximum(tl.sum(soft, axis=1), 1e-30)[:, None]
        weight = tl.load(g_routing + slot, mask=real, other=0.0)
        tl.store(g_logits + slot, soft * (weight - tl.sum(soft * weight, axis=1)[:, None]) / tau, mask=real)
