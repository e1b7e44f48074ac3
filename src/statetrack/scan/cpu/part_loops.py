"""Loops between complex numbers and their parts, on flat arrays: rows of ``2 n`` reals, real parts first, against rows of ``n``
complex numbers given as pairs; and what stands around ``D = |D| exp(i phi)``. Work items are rows."""

from __future__ import annotations

from statetrack.scan.cpu.loops import _U, _jit


@_jit
def join(parts, pairs, n, start, stop):
    """``pairs`` from ``parts``."""
    n = _U(n)
    for row in range(_U(start), _U(stop)):
        base = _U(2) * n * row
        for i in range(n):
            pairs[base + _U(2) * i] = parts[base + i]
            pairs[base + _U(2) * i + _U(1)] = parts[base + n + i]


@_jit
def split(pairs, parts, n, start, stop):
    """``parts`` from ``pairs``."""
    n = _U(n)
    for row in range(_U(start), _U(stop)):
        base = _U(2) * n * row
        for i in range(n):
            parts[base + i] = pairs[base + _U(2) * i]
            parts[base + n + i] = pairs[base + _U(2) * i + _U(1)]


@_jit
def polar(modulus, cosine, sine, pairs, base):
    """``pairs[2 base:]``: modulus times ``(cosine, sine)``."""
    base = _U(2) * _U(base)
    for i in range(_U(len(modulus))):
        pairs[base + _U(2) * i] = modulus[i] * cosine[i]
        pairs[base + _U(2) * i + _U(1)] = modulus[i] * sine[i]


@_jit
def polar_credit(pairs, g_pairs, log_modulus, phase, base):
    """Gradients of ``log |D|`` and of the phase, ``conj(D) g`` by parts, from ``D`` and its gradient from ``2 base`` on."""
    base = _U(2) * _U(base)
    for i in range(_U(len(phase))):
        re, im = pairs[base + _U(2) * i], pairs[base + _U(2) * i + _U(1)]
        g_re, g_im = g_pairs[base + _U(2) * i], g_pairs[base + _U(2) * i + _U(1)]
        log_modulus[i] = re * g_re + im * g_im
        phase[i] = re * g_im - im * g_re
