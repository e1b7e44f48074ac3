"""Straight-through credit for a routed one-hot scan: the loops.

With ``P`` the selection and ``A = P diag(D)`` (column) or ``diag(D) P`` (row), the gradient of ``P`` at one token is the outer
product ``Re(conj(u) v^T)`` of a cotangent ``u`` and a state ``v``. Both are kept as ``(H, parts, N, T)`` real, one or two
parts, with tokens innermost and sorted by route: then pairing them with a map is a product of contiguous rows, and so is a
sum over one route's tokens.
"""

from __future__ import annotations

import numpy as np

from statetrack.scan.cpu.loops import _jit


@_jit
def credit_factors(column, is_complex, d, states, x0, offsets, position, n_heads, n, g_b, u, v, start, stop):
    """Fill ``u`` and ``v`` for work items ``s * H + h``; ``position (T * H,)`` is a token's place in its head's sorted order."""
    for w in range(start, stop):
        s, h = w // n_heads, w % n_heads
        for t in range(offsets[s], offsets[s + 1]):
            token = t * n_heads + h
            base, place = token * n, position[token]
            before = base - n_heads * n
            x = states[before : before + n] if t > offsets[s] else x0[w * n : (w + 1) * n]
            g, d_t = g_b[base : base + n], d[base : base + n]
            for q in range(n):
                left = g[q] if column else np.conj(d_t[q]) * g[q]
                right = d_t[q] * x[q] if column else x[q]
                u[h, 0, q, place], v[h, 0, q, place] = left.real, right.real
                if is_complex:
                    u[h, 1, q, place], v[h, 1, q, place] = left.imag, right.imag


@_jit
def full_routing_credit(column, maps, n_entries, u, v, out, start, stop):
    """``out (H * K, T)``: the credit ``<P_k, Re(conj(u) v^T)>`` of every entry at every token; work items are heads and
    entries."""
    scattered, straight = (u, v) if column else (v, u)
    for item in range(start, stop):
        h, total = item // n_entries, out[item]
        for part in range(u.shape[1]):
            for q in range(u.shape[2]):
                a, b = scattered[h, part, maps[item, q]], straight[h, part, q]
                for t in range(len(total)):
                    total[t] += a[t] * b[t]


@_jit
def active_credit(column, maps, ends, n_entries, u, v, out, g_selection, start, stop):
    """The same for the chosen entries alone, and their credit per state in ``g_selection (H * K, N, N)``.

    Entry ``k`` of head ``h`` was chosen by the tokens ``ends[h * K + k] .. ends[h * K + k + 1]`` (counted within the head).
    """
    scattered, straight = (u, v) if column else (v, u)
    for item in range(start, stop):
        h = item // n_entries
        first, last = ends[item, 0], ends[item, 1]
        for part in range(u.shape[1]):
            for q in range(u.shape[2]):
                a, b = scattered[h, part, maps[item, q]], straight[h, part, q]
                i, j = (maps[item, q], q) if column else (q, maps[item, q])
                for t in range(first, last):
                    product = a[t] * b[t]
                    out[item, t] += product
                    g_selection[item, i, j] += product
