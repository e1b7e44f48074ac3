"""The inner loops, on flat arrays. Tokens are numbered across the batch; ``offsets[s]:offsets[s + 1]`` are those of sequence
``s``.

Work item ``w = s * H + h`` is one head of one sequence. ``maps`` is ``(rows, N)`` and ``rows[token * H + h]`` says which map
applies.
"""

from __future__ import annotations

import numba
import numpy as np

_jit = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


@_jit
def diagonal_forward(d, b, has_b, x0, offsets, n_heads, n, states, final, start, stop):
    for w in range(start, stop):
        s, h = w // n_heads, w % n_heads
        x = x0[w * n : (w + 1) * n]
        for t in range(offsets[s], offsets[s + 1]):
            base = (t * n_heads + h) * n
            d_t, y = d[base : base + n], states[base : base + n]
            if has_b:
                b_t = b[base : base + n]
                for q in range(n):
                    y[q] = d_t[q] * x[q] + b_t[q]
            else:
                for q in range(n):
                    y[q] = d_t[q] * x[q]
            x = y
        final[w * n : (w + 1) * n] = x


@_jit
def diagonal_backward(d, states, x0, offsets, n_heads, n, g_states, carry, g_d, g_b, start, stop):
    """``carry`` holds the gradient of the final state on entry and that of the initial state on return."""
    for w in range(start, stop):
        s, h = w // n_heads, w % n_heads
        c = carry[w * n : (w + 1) * n]
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            base = (t * n_heads + h) * n
            before = base - n_heads * n
            x = states[before : before + n] if t > offsets[s] else x0[w * n : (w + 1) * n]
            d_t, g_t = d[base : base + n], g_b[base : base + n]
            upstream, out = g_states[base : base + n], g_d[base : base + n]
            for q in range(n):
                g = upstream[q] + c[q]
                g_t[q] = g
                out[q] = g * np.conj(x[q])
                c[q] = np.conj(d_t[q]) * g


@_jit
def one_hot_forward(column, maps, rows, d, b, has_b, x0, offsets, n_heads, n, states, final, start, stop):
    for w in range(start, stop):
        s, h = w // n_heads, w % n_heads
        x = x0[w * n : (w + 1) * n]
        for t in range(offsets[s], offsets[s + 1]):
            token = t * n_heads + h
            base = token * n
            m, d_t, y = maps[rows[token]], d[base : base + n], states[base : base + n]
            if has_b:
                y[:] = b[base : base + n]
            else:
                y[:] = 0
            if column:
                for q in range(n):
                    y[m[q]] += d_t[q] * x[q]
            else:
                for q in range(n):
                    y[q] += d_t[q] * x[m[q]]
            x = y
        final[w * n : (w + 1) * n] = x


@_jit
def one_hot_backward_token(column, m, d_t, x, g, c, g_d):
    """Gradient of one diagonal and the carry to the token before, given the gradient ``g`` of this token's state."""
    n = len(g)
    if column:
        for q in range(n):
            picked = g[m[q]]
            g_d[q] = picked * np.conj(x[q])
            c[q] = np.conj(d_t[q]) * picked
    else:
        c[:] = 0
        for q in range(n):
            g_d[q] = g[q] * np.conj(x[m[q]])
            c[m[q]] += np.conj(d_t[q]) * g[q]


@_jit
def one_hot_backward(column, maps, rows, d, states, x0, offsets, n_heads, n, g_states, carry, g_d, g_b, start, stop):
    """``carry`` as in ``diagonal_backward``."""
    for w in range(start, stop):
        s, h = w // n_heads, w % n_heads
        c = carry[w * n : (w + 1) * n]
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            token = t * n_heads + h
            base = token * n
            before = base - n_heads * n
            x = states[before : before + n] if t > offsets[s] else x0[w * n : (w + 1) * n]
            g = g_b[base : base + n]
            upstream = g_states[base : base + n]
            for q in range(n):
                g[q] = upstream[q] + c[q]
            one_hot_backward_token(column, maps[rows[token]], d[base : base + n], x, g, c, g_d[base : base + n])
