"""The product of the transitions of a stretch of tokens: what is known of it before the state that enters is.

All heads of a token together, on flat arrays as in ``loops``. A composite is, for every head, a map ``p``, a diagonal ``d`` and
an affine part ``e``:

    column   h -> scatter(p, d h) + e           row   h -> d h[p] + e

The backward walk goes through the adjoint of every token, from right to left; the adjoint of a column form is a row form along
the same map, and the other way round. ``p``, ``d`` and ``e`` are of twice the size: one half is read while the other is written.
Both functions return the half (0 or 1) that holds the result.
"""

from __future__ import annotations

import numpy as np

from statetrack.scan.cpu.loops import _AHEAD, _U, _jit
from statetrack.scan.cpu.prefetch import prefetch


@_jit
def _start(p, d, e, size, n):
    for i in range(size):
        p[i], d[i], e[i] = i % n, 1, 0


@_jit
def _fetch(x, start, width):
    for i in range(_U(0), width, _U(64 // x.itemsize)):
        prefetch(x, start + i)


@_jit
def composite_forward(column, maps, rows, d, b, has_b, n_heads, n, begin, end, out_p, out_d, out_e):
    """Transitions of the tokens ``begin`` to ``end``, the first of them applied first."""
    heads, n = _U(n_heads), _U(n)
    size, side = heads * n, _U(0)
    _start(out_p, out_d, out_e, size, n)
    for t in range(_U(begin), _U(end)):
        # Chains that have met read a few places of a token only, which no processor foresees.
        _fetch(d, (t + _AHEAD) * size, size)
        if len(rows) == 0:
            _fetch(maps, (t + _AHEAD) * size, size)
        for h in range(heads):
            token = t * heads + h
            base, m = token * n, (_U(rows[token]) if len(rows) else token) * n
            old, new = side * size + h * n, (_U(1) - side) * size + h * n
            if column:
                for q in range(n):
                    k = _U(out_p[old + q])
                    out_d[new + q] = d[base + k] * out_d[old + q]
                    out_p[new + q] = maps[m + k]
                if has_b:
                    for q in range(n):
                        out_e[new + q] = b[base + q]
                    for q in range(n):
                        out_e[new + _U(maps[m + q])] += d[base + q] * out_e[old + q]
            else:
                for q in range(n):
                    k = _U(maps[m + q])
                    out_p[new + q] = out_p[old + k]
                    out_d[new + q] = d[base + q] * out_d[old + k]
                if has_b:
                    for q in range(n):
                        out_e[new + q] = d[base + q] * out_e[old + _U(maps[m + q])] + b[base + q]
        side = _U(1) - side
    if not has_b:
        for i in range(side * size, (side + _U(1)) * size):
            out_e[i] = 0
    return side


@_jit
def composite_backward(column, maps, rows, d, g_states, n_heads, n, begin, end, out_p, out_d, out_e):
    """Adjoints of the tokens ``end`` down to ``begin``, ``z -> A^H (g + z)`` each; a row form for ``column`` and vice versa."""
    heads, n = _U(n_heads), _U(n)
    size, side = heads * n, _U(0)
    _start(out_p, out_d, out_e, size, n)
    for back in range(_U(1), _U(end) - _U(begin) + _U(1)):
        t = _U(end) - back
        _fetch(d, (t - _AHEAD) * size, size)
        _fetch(g_states, (t - _AHEAD) * size, size)
        if len(rows) == 0:
            _fetch(maps, (t - _AHEAD) * size, size)
        for h in range(heads):
            token = t * heads + h
            base, m = token * n, (_U(rows[token]) if len(rows) else token) * n
            old, new = side * size + h * n, (_U(1) - side) * size + h * n
            for q in range(n):
                out_e[old + q] += g_states[base + q]
            if column:
                for q in range(n):
                    k, factor = _U(maps[m + q]), np.conj(d[base + q])
                    out_p[new + q] = out_p[old + k]
                    out_d[new + q] = factor * out_d[old + k]
                    out_e[new + q] = factor * out_e[old + k]
            else:
                for q in range(n):
                    k = _U(out_p[old + q])
                    out_d[new + q] = np.conj(d[base + k]) * out_d[old + q]
                    out_p[new + q] = maps[m + k]
                    out_e[new + q] = 0
                for q in range(n):
                    out_e[new + _U(maps[m + q])] += np.conj(d[base + q]) * out_e[old + q]
        side = _U(1) - side
    return side


@_jit
def apply_composite(column, p, d, e, side, n_heads, n, x, y):
    """``y``: what a composite makes of ``x``."""
    n = _U(n)
    half = _U(side) * _U(n_heads) * n
    for h in range(_U(n_heads)):
        c = h * n
        for q in range(n):
            y[c + q] = e[half + c + q]
        for q in range(n):
            k = c + _U(p[half + c + q])
            if column:
                y[k] += d[half + c + q] * x[c + q]
            else:
                y[c + q] += d[half + c + q] * x[k]
