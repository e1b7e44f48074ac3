"""One step of a selective layer on boxes: states as ``(parts, G, N)``, for G heads and real and imaginary parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from torch import nn

from statetrack.analysis.checker.boxes import (
    Array,
    Box,
    F,
    U,
    add,
    apply,
    array,
    demand,
    dot,
    exact,
    minus,
    mul,
    rising,
    sigmoid,
    silu,
    size,
    widen,
    zero,
)
from statetrack.layers.complex_diagonal import ComplexDiagonal
from statetrack.layers.flash_pd_ssm import FlashPDSSM


def start(layer: Any, heads: list[int]) -> Array:
    """The initial state."""
    h = layer.initial_state(1).h[0, heads]
    return np.stack([array(part) for part in ([h.real, h.imag] if h.is_complex() else [h])])


def advance(layer: Any, heads: list[int], u: Box, h: Box) -> Iterator[Box]:
    """All states that may follow; more than one where selections are tied within rounding."""
    column = getattr(layer, "orientation", "column") == "column"
    v = _turned(layer, heads, u, h) if column else h
    held = ~zero(v).all(axis=0)
    drive = None if layer.input is None else _for_heads(layer, heads, apply(layer.input, u), len(h[0]))
    for maps in product(*_maps(layer, heads, u, held, column)):
        z = _moved(v, np.array(maps), held, column)
        z = z if column else _turned(layer, heads, u, z)
        if drive is not None:  # float32 may add it first, before the entries that meet
            z = widen(add(z, drive), (layer.d_state + 1) * U * (size(z) + size(drive)))
        yield z


def _turned(layer: Any, heads: list[int], u: Box, h: Box) -> Box:
    """``D(u) h``."""
    d, shape = layer.diagonal, (-1, layer.d_state)
    demand(d.levels is None, "phases are picked, for which there are no bounds")
    modulus: Box = (np.ones((len(heads), layer.d_state)),) * 2
    if d.magnitude is not None and not (d.modulus == "annealed" and float(d.progress) == 1):
        logits = apply(d.magnitude, u)
        if d.kind == "decay_phase":
            power = mul(minus(rising(lambda v: np.logaddexp(0, v), logits)), rising(np.exp, exact(d.a_log)))
        else:
            power = rising(lambda v: -np.logaddexp(0, -v), logits)
        if d.modulus == "annealed":
            power = mul(power, widen((1 - float(d.progress),) * 2, U))
        lo, hi = rising(np.exp, power)
        modulus = lo.reshape(shape)[heads], np.minimum(hi, 1).reshape(shape)[heads]  # exp of what is at most 0
    if d.phase is None:
        return mul(h, modulus)
    phase = apply(d.phase, u) if d.kind == "decay_phase" else mul(rising(sigmoid, apply(d.phase, u)), (2 * np.pi,) * 2)
    c, s = (mul(modulus, _cosine(phase, shift, shape, heads)) for shift in (0.0, np.pi / 2))
    x, y = (h[0][0], h[1][0]), (h[0][1], h[1][1])
    re, im = add(mul(c, x), minus(mul(s, y))), add(mul(c, y), mul(s, x))
    return np.stack([re[0], im[0]]), np.stack([re[1], im[1]])


def _cosine(phase: Box, shift: float, shape: tuple[int, int], heads: list[int]) -> Box:
    """Cosine of ``phase - shift``, from its value and slope in the middle and the width."""
    mid, rad = (phase[0] + phase[1]) / 2 - shift, (phase[1] - phase[0]) / 2
    lo, hi = widen((np.cos(mid), np.cos(mid)), rad * np.abs(np.sin(mid)) + rad**2 + F)
    return np.maximum(lo, -1 - F).reshape(shape)[heads], np.minimum(hi, 1 + F).reshape(shape)[heads]


def _maps(layer: Any, heads: list[int], u: Box, held: Array, column: bool) -> list[list[Array]]:
    """For each head the maps that may apply, alike where they are not used."""
    if isinstance(layer, ComplexDiagonal):
        return [[np.arange(layer.d_state)]] * len(heads)
    logits = [end.reshape(layer.n_heads, -1)[heads] for end in apply(layer.router, u)]
    scores = array(layer.scores)[heads]
    found = []
    for g in range(len(heads)):
        lo, hi = logits[0][g], logits[1][g]
        if isinstance(layer, FlashPDSSM):
            tables = [_may_be_chosen(scores[g, k], scores[g, k], column) for k in np.flatnonzero(hi >= lo.max())]
        else:
            mixed = dot(scores[g].reshape(len(lo), -1).T, _softmax(lo, hi))
            low, high = (end.reshape(layer.d_state, -1) for end in mixed)
            tables = [_may_be_chosen(low, high, column)]
        found.append([one for table in tables for one in _of_table(table, held[g], column)])
        found[-1] = list({one.tobytes(): one for one in found[-1]}.values())
    demand(np.prod([float(len(options)) for options in found]) <= 4096, "too many selections are tied")
    return found


def _may_be_chosen(lo: Array, hi: Array, column: bool) -> Array:
    """``[alternative, place]``: whether a score may be the largest of its place."""
    axis = 0 if column else 1
    may = hi >= lo.max(axis, keepdims=True)
    return may if column else may.T


def _softmax(lo: Array, hi: Array) -> Box:
    ends = []
    for own, other in ((lo, hi), (hi, lo)):
        gaps = np.exp(np.minimum(other[None, :] - own[:, None], 700))
        np.fill_diagonal(gaps, 1)
        ends.append(1 / gaps.sum(1))
    return widen((ends[0], ends[1]), F + len(lo) * U)


def _of_table(table: Array, held: Array, column: bool) -> Iterator[Array]:
    n = len(held)
    if column:
        places = [np.flatnonzero(table[:, q]) if held[q] else [0] for q in range(n)]
    else:
        places = [np.unique(np.where(held[table[:, i]], np.flatnonzero(table[:, i]), n)) for i in range(n)]
    demand(np.prod([float(len(options)) for options in places]) <= 4096, "too many selections are tied")
    return (np.array(chosen) for chosen in product(*places))


def _moved(v: Box, maps: Array, held: Array, column: bool) -> Box:
    if not column:
        padded = [np.concatenate([end, np.zeros_like(end[..., :1])], axis=-1) for end in v]
        lo, hi = (np.take_along_axis(end, np.broadcast_to(maps, end[..., :-1].shape), -1) for end in padded)
        return lo, hi
    lo, hi, total = (np.zeros_like(v[0]) for _ in range(3))
    meet = np.zeros(held.shape)
    for g, q in np.argwhere(held):
        place = (slice(None), g, maps[g, q])
        lo[place] += v[0][:, g, q]
        hi[place] += v[1][:, g, q]
        total[place] += size(v)[:, g, q]
        meet[g, maps[g, q]] += 1
    return widen((lo, hi), np.where(meet > 1, meet * 2 * U * total, 0))


def _for_heads(layer: Any, heads: list[int], x: Box, parts: int) -> Box:
    lo, hi = (end.reshape(parts, -1, layer.d_state)[:, heads] for end in x)
    return lo, hi


def read(layer: Any, heads: list[int], u: Box, h: Box) -> Box:
    """What the heads add to the layer's output, without what ``constant`` gives."""
    readout, parts = layer.readout, len(h[0])
    n_terms = layer.n_heads * layer.d_state * parts
    if readout.kind == "gated":
        weight = _for_heads(layer, heads, apply(readout.selector, u), parts)
        lo, hi = mul(weight, h)
        mixed = (lo[0], hi[0]) if parts == 1 else add((lo[0], hi[0]), minus((lo[1], hi[1])))
        gate = _for_heads(layer, heads, apply(readout.gate, u), 1)
        h = mul(apply(readout.head_norm, mixed), silu((gate[0][0], gate[1][0])))
        parts = 1
    first: Any = readout.out[0] if isinstance(readout.out, nn.Sequential) else readout.out
    weight = array(first.weight).reshape(len(first.weight), parts, -1, layer.d_state)[:, :, heads].reshape(len(first.weight), -1)
    y = dot(weight, (h[0].ravel(), h[1].ravel()), n_terms=n_terms)
    return apply(readout.out[1:], add(y, exact(first.bias))) if readout.kind == "mlp" else y


def constant(layer: Any, u: Box) -> Box:
    """What the layer's output holds whatever the state is."""
    readout: Any = layer.readout
    bias = None if readout.kind == "mlp" else getattr(readout.out, "bias", None)
    y = (np.zeros_like(u[0]),) * 2 if bias is None else exact(bias)
    return y if readout.skip is None else add(y, mul(u, exact(readout.skip)))
