"""Straight-through credit for a routed one-hot scan: the loops, on flat arrays of reals; complex numbers are pairs.

With ``P`` the selection and ``A = P diag(D)`` (column) or ``diag(D) P`` (row), the gradient of ``P`` at one token is the outer
product ``Re(conj(u) v^T)`` of a cotangent ``u`` and a state ``v``. Both are kept as rows of ``N`` reals, one or two (real parts,
imaginary parts) for each token, ``u`` and ``v (H, T, parts, N)``, with the tokens of a head sorted by route: then the sum over
one route's tokens is a product of two slices.

To pair them with every map of a dictionary, a tile of tokens is turned over in cache, so that tokens lie innermost and a map
picks whole rows.
"""

from __future__ import annotations

import numpy as np

from statetrack.scan.cpu.loops import _U, _jit

TILE = _U(32)
"""Tokens turned over at a time."""


@_jit
def _real_factors(column, d, x, g, at, before, u, v, to, n):
    for q in range(n):
        if column:
            u[to + q], v[to + q] = g[at + q], d[at + q] * x[before + q]
        else:
            u[to + q], v[to + q] = d[at + q] * g[at + q], x[before + q]


@_jit
def _complex_factors(column, d, x, g, at, before, u, v, to, n):
    two = _U(2)
    for q in range(n):
        re, im = _U(2) * q, _U(2) * q + _U(1)
        d_re, d_im = d[two * at + re], d[two * at + im]
        x_re, x_im = x[two * before + re], x[two * before + im]
        g_re, g_im = g[two * at + re], g[two * at + im]
        if column:
            u[to + q], u[to + n + q] = g_re, g_im
            v[to + q], v[to + n + q] = d_re * x_re - d_im * x_im, d_re * x_im + d_im * x_re
        else:
            u[to + q], u[to + n + q] = d_re * g_re + d_im * g_im, d_re * g_im - d_im * g_re
            v[to + q], v[to + n + q] = x_re, x_im


@_jit
def credit_factors(column, parts, d, states, x0, offsets, position, n_heads, n, g_b, u, v, start, stop):
    """Fill ``u`` and ``v`` for work items ``s * H + h``; ``position (T * H,)`` is a token's place in its head's sorted order."""
    heads, n, parts = _U(n_heads), _U(n), _U(parts)
    n_tokens = _U(len(position)) // heads
    for w in range(_U(start), _U(stop)):
        s, h = w // heads, w % heads
        for t in range(_U(offsets[s]), _U(offsets[s + 1])):
            token = t * heads + h
            to = (h * n_tokens + _U(position[token])) * parts * n
            first = t == _U(offsets[s])
            x, before = (x0, w * n) if first else (states, (token - heads) * n)
            if parts == 1:
                _real_factors(column, d, x, g_b, token * n, before, u, v, to, n)
            else:
                _complex_factors(column, d, x, g_b, token * n, before, u, v, to, n)


@_jit
def full_routing_credit(column, maps, n_entries, n, parts, order, n_heads, u, v, out, start, stop):
    """``out (T, H, K)``: the credit ``<P_k, Re(conj(u) v^T)>`` of every entry at every token.

    Work items are tiles of the sorted tokens ``order (T, H)``, the tiles of one head after another.
    """
    n_entries, n, parts, heads = _U(n_entries), _U(n), _U(parts), _U(n_heads)
    n_tokens, width = _U(len(order)) // heads, parts * n
    n_tiles = (n_tokens + TILE - _U(1)) // TILE
    scattered, straight = np.zeros(width * TILE, u.dtype), np.zeros(width * TILE, u.dtype)
    total = np.empty(TILE, u.dtype)
    for item in range(_U(start), _U(stop)):
        h, low = item // n_tiles, (item % n_tiles) * TILE
        here = min(TILE, n_tokens - low)
        for t in range(here):
            base = (h * n_tokens + low + t) * width
            for q in range(width):
                scattered[q * TILE + t] = u[base + q] if column else v[base + q]
                straight[q * TILE + t] = v[base + q] if column else u[base + q]
        for k in range(n_entries):
            for t in range(TILE):
                total[t] = 0
            for part in range(parts):
                for q in range(n):
                    a = (part * n + _U(maps[(h * n_entries + k) * n + q])) * TILE
                    b = (part * n + q) * TILE
                    for t in range(TILE):
                        total[t] += scattered[a + t] * straight[b + t]
            for t in range(here):
                out[(_U(order[(low + t) * heads + h]) * heads + h) * n_entries + k] = total[t]


@_jit
def active_credit(column, maps, ends, n_entries, n, parts, order, n_heads, u, v, out, g_selection, start, stop):
    """The same for the chosen entries alone, and their credit per state in ``g_selection (H * K, N, N)``; both start as zeros.

    Entry ``k`` of head ``h`` was chosen by the tokens ``ends[2 (h K + k)] .. ends[2 (h K + k) + 1]`` (counted within the head).
    """
    n_entries, n, parts, heads = _U(n_entries), _U(n), _U(parts), _U(n_heads)
    n_tokens = _U(len(order)) // heads
    credit = np.empty(n, u.dtype)
    for item in range(_U(start), _U(stop)):
        h = item // n_entries
        for q in range(n):
            credit[q] = 0
        for t in range(_U(ends[_U(2) * item]), _U(ends[_U(2) * item + _U(1)])):
            total = credit[0] * 0
            for part in range(parts):
                base = ((h * n_tokens + t) * parts + part) * n
                for q in range(n):
                    picked = base + _U(maps[item * n + q])
                    product = u[picked] * v[base + q] if column else v[picked] * u[base + q]
                    credit[q] += product
                    total += product
            out[(_U(order[t * heads + h]) * heads + h) * n_entries + item % n_entries] = total
        for q in range(n):
            i, j = (_U(maps[item * n + q]), q) if column else (q, _U(maps[item * n + q]))
            g_selection[(item * n + i) * n + j] = credit[q]
