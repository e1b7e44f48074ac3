"""The inner loops, on flat arrays. Tokens are numbered across the batch, and sequence ``s`` has ``offsets[s]:offsets[s + 1]``.

Work item ``s * H + h`` is one head of one sequence; a call does items ``start`` to ``stop``, all heads of a token together, so
that memory is walked in order. ``maps`` holds maps of ``N`` entries one after another; ``rows[token * H + h]`` says which one
applies, and an empty ``rows`` means that there is one for every token and head.

Written for the compiler: indices are unsigned (a signed one is tested at every access for counting from the end), no view of
an array is ever taken (each costs a reference count), and a pass over a token reads and writes as few arrays as it can.
"""

from __future__ import annotations

import numba
import numpy as np

from statetrack.scan.cpu.prefetch import prefetch

_jit = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
_U = np.uint64
_AHEAD = _U(4)
"""How many tokens before they are needed the backward pass asks for its arguments."""
_FILL = _U(64)  # Entries set at a time where tokens are shorter: enough for the vector unit, little enough to stay in cache.


@_jit
def _fetch_row(d, states, g_states, row, width):
    """Ask for a row of the arrays that a backward pass reads."""
    for i in range(_U(0), width, _U(64 // d.itemsize)):
        prefetch(d, row + i)
        prefetch(states, row + i)
        prefetch(g_states, row + i)


@_jit
def diagonal_forward(d, b, has_b, offsets, n_heads, n, states, final, start, stop):
    """``final`` holds the initial state on entry and the final one on return."""
    row = _U(n_heads * n)
    for s in range(start // n_heads, (stop + n_heads - 1) // n_heads):
        first = _U(max(start - s * n_heads, 0) * n)
        width = _U(min(stop - s * n_heads, n_heads) * n) - first
        c = _U(s) * row + first
        for t in range(_U(offsets[s]), _U(offsets[s + 1])):
            base = t * row + first
            if has_b:
                for i in range(width):
                    x = d[base + i] * final[c + i] + b[base + i]
                    final[c + i] = x
                    states[base + i] = x
            else:
                for i in range(width):
                    x = d[base + i] * final[c + i]
                    final[c + i] = x
                    states[base + i] = x


@_jit
def diagonal_backward(d, states, x0, offsets, n_heads, n, g_states, carry, g_d, g_b, keep, start, stop):
    """``carry`` holds the gradient of the final state on entry and that of the initial state on return.

    ``g_b`` has one row per token, or without ``keep`` one per sequence, for scratch.
    """
    row = _U(n_heads * n)
    for s in range(start // n_heads, (stop + n_heads - 1) // n_heads):
        first = _U(max(start - s * n_heads, 0) * n)
        width = _U(min(stop - s * n_heads, n_heads) * n) - first
        c = _U(s) * row + first
        for back in range(_U(1), _U(offsets[s + 1]) - _U(offsets[s]) + _U(1)):
            # The offset is read anew for every token: were the walk plainly downward, LLVM would test once for the whole of it
            # whether arrays overlap, find that they might, and leave the loops scalar.
            t = _U(offsets[s + 1]) - back
            base = t * row + first
            g, before = base if keep else c, base - row
            _fetch_row(d, states, g_states, base - _AHEAD * row, width)
            for i in range(width):
                total = g_states[base + i] + carry[c + i]
                g_b[g + i] = total
                carry[c + i] = np.conj(d[base + i]) * total
            if t == _U(offsets[s]):
                for i in range(width):
                    g_d[base + i] = g_b[g + i] * np.conj(x0[c + i])
            else:
                for i in range(width):
                    g_d[base + i] = g_b[g + i] * np.conj(states[before + i])


@_jit
def one_hot_forward(column, maps, rows, d, b, has_b, offsets, n_heads, n, states, final, start, stop):
    """``final`` as in ``diagonal_forward``."""
    heads, n = _U(n_heads), _U(n)
    row = heads * n
    for s in range(start // n_heads, (stop + n_heads - 1) // n_heads):
        low, high = _U(max(start - s * n_heads, 0)), _U(min(stop - s * n_heads, n_heads))
        begin, end = _U(offsets[s]), _U(offsets[s + 1])
        filled, block = begin, max(_U(1), _FILL // row) if high - low == heads else _U(1)
        for t in range(begin, end):
            if column and t == filled:
                filled = min(t + block, end)
                left, right = t * row + low * n, (filled - _U(1)) * row + high * n
                if has_b:
                    for i in range(left, right):
                        states[i] = b[i]
                else:
                    for i in range(left, right):
                        states[i] = 0
            for h in range(low, high):
                token = t * heads + h
                base, c = token * n, (_U(s) * heads + h) * n
                m, before = (_U(rows[token]) if len(rows) else token) * n, base - row
                if column:
                    if t == begin:
                        for q in range(n):
                            states[base + _U(maps[m + q])] += d[base + q] * final[c + q]
                    else:
                        for q in range(n):
                            states[base + _U(maps[m + q])] += d[base + q] * states[before + q]
                else:
                    if t == begin:
                        for q in range(n):
                            states[base + q] = d[base + q] * final[c + _U(maps[m + q])]
                    else:
                        for q in range(n):
                            states[base + q] = d[base + q] * states[before + _U(maps[m + q])]
                    if has_b:
                        for q in range(n):
                            states[base + q] += b[base + q]
        if end > begin:
            last = (end - _U(1)) * row
            for i in range(low * n, high * n):
                final[_U(s) * row + i] = states[last + i]


@_jit
def one_hot_backward(column, maps, rows, d, states, x0, offsets, n_heads, n, g_states, carry, g_d, g_b, keep, start, stop):
    """``carry``, ``g_b`` and ``keep`` as in ``diagonal_backward``."""
    heads, n = _U(n_heads), _U(n)
    row = heads * n
    for s in range(start // n_heads, (stop + n_heads - 1) // n_heads):
        low, high = _U(max(start - s * n_heads, 0)), _U(min(stop - s * n_heads, n_heads))
        for back in range(_U(1), _U(offsets[s + 1]) - _U(offsets[s]) + _U(1)):
            t = _U(offsets[s + 1]) - back  # See diagonal_backward.
            _fetch_row(d, states, g_states, (t - _AHEAD) * row + low * n, (high - low) * n)
            for h in range(low, high):
                token = t * heads + h
                base, c = token * n, (_U(s) * heads + h) * n
                m, before = (_U(rows[token]) if len(rows) else token) * n, base - row
                g = base if keep else c
                for q in range(n):
                    g_b[g + q] = g_states[base + q] + carry[c + q]
                if column:
                    for q in range(n):
                        carry[c + q] = g_b[g + _U(maps[m + q])]
                    if t == _U(offsets[s]):
                        for q in range(n):
                            g_d[base + q] = carry[c + q] * np.conj(x0[c + q])
                    else:
                        for q in range(n):
                            g_d[base + q] = carry[c + q] * np.conj(states[before + q])
                    for q in range(n):
                        carry[c + q] *= np.conj(d[base + q])
                else:
                    if t == _U(offsets[s]):
                        for q in range(n):
                            g_d[base + q] = g_b[g + q] * np.conj(x0[c + _U(maps[m + q])])
                    else:
                        for q in range(n):
                            g_d[base + q] = g_b[g + q] * np.conj(states[before + _U(maps[m + q])])
                    for q in range(n):
                        carry[c + q] = 0
                    for q in range(n):
                        carry[c + _U(maps[m + q])] += np.conj(d[base + q]) * g_b[g + q]
