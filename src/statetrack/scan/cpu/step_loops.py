"""One token of a whole Flash PD-SSM layer: the loops.

Every matrix is contiguous with rows of weights; a bias, a hidden layer, an input matrix or a skip that a layer does not have is
an empty array. Letters as in the layer: E inputs, H heads, N states, K entries, S = H N, ``parts`` 2 for complex states, else 1.
"""

from __future__ import annotations

import math

import numpy as np

from statetrack.scan.cpu.loops import _jit

_ROOT = math.sqrt(0.5)


@_jit
def _affine(weight, bias, x, y):
    for i in range(weight.shape[0]):
        total = x.dtype.type(0)
        for j in range(weight.shape[1]):
            total += weight[i, j] * x[j]
        y[i] = total + bias[i] if len(bias) else total


@_jit
def _network(first, first_bias, last, last_bias, x, hidden, y):
    """A linear map, or two with GELU between them."""
    if len(first) == 0:
        _affine(last, last_bias, x, y)
        return
    _affine(first, first_bias, x, hidden)
    for i in range(len(hidden)):
        hidden[i] = 0.5 * hidden[i] * (1 + math.erf(hidden[i] * _ROOT))
    _affine(last, last_bias, hidden, y)


@_jit
def _choice(column, scores, choice, best):
    """Of ``scores (N, N)`` the first largest entry of every column, or of every row."""
    n = len(scores)
    for q in range(n):
        best[q], choice[q] = scores[0, q] if column else scores[q, 0], 0
    if column:
        for i in range(1, n):
            for q in range(n):
                better = scores[i, q] > best[q]
                best[q] = scores[i, q] if better else best[q]
                choice[q] = i if better else choice[q]
    else:
        for q in range(n):
            for j in range(1, n):
                if scores[q, j] > best[q]:
                    best[q], choice[q] = scores[q, j], j


@_jit
def _diagonal(rising, turns, m, rate, phase, d_re, d_im):
    """``D`` from the logits of its modulus (none: modulus 1) and of its phase (none: a real diagonal)."""
    for q in range(len(d_re)):
        modulus = 1.0
        if len(m):
            logit = -m[q] if rising else m[q]
            soft = max(logit, 0.0) + math.log1p(math.exp(-abs(logit)))
            modulus = math.exp(-soft * rate[q] if len(rate) else -soft)
        d_re[q] = modulus
        if len(d_im):
            angle = 2 * math.pi / (1 + math.exp(-phase[q])) if turns else phase[q]
            d_re[q], d_im[q] = modulus * math.cos(angle), modulus * math.sin(angle)


@_jit
def _gated(selector, gate, norm, eps, u, h, weights, features):
    """``features (S,)``: ``Re(C(u) h)``, normalised per head, times ``silu(gate(u))``."""
    parts, n_heads, n = h.shape
    nothing = np.empty(0, u.dtype)
    _affine(selector, nothing, u, weights)
    _affine(gate, nothing, u, features)
    for head in range(n_heads):
        square = u.dtype.type(0)
        for q in range(n):
            i = head * n + q
            mixed = weights[i] * h[0, head, q]
            if parts == 2:
                mixed -= weights[n_heads * n + i] * h[1, head, q]
            square += mixed * mixed
            weights[i] = mixed
        scale = 1 / math.sqrt(square / n + eps)
        for q in range(n):
            i = head * n + q
            features[i] *= weights[i] * scale * norm[q] / (1 + math.exp(-features[i]))


@_jit
def flash_step(column, rising, turns, x, h, scores, router, magnitude, rate, phase, drive, out, gating, eps, skip, y, h_next):
    """``y (B, E)`` and ``h_next (B, parts, H, N)`` from ``x (B, E)`` and ``h (B, parts, H, N)``.

    ``magnitude``, ``phase`` and ``out`` are ``(first, first_bias, last, last_bias)``, ``gating`` is the ``(selector, gate,
    norm)`` of the gated readout; the others are arrays.
    """
    kind = x.dtype
    parts, n_heads, n = h.shape[1], h.shape[2], h.shape[3]
    size, n_entries = n_heads * n, len(router) // n_heads
    logits, b = np.empty(len(router), kind), np.zeros(len(drive), kind)
    m, p = np.empty(len(magnitude[2]), kind), np.empty(len(phase[2]), kind)
    hidden_m, hidden_p = np.empty(len(magnitude[0]), kind), np.empty(len(phase[0]), kind)
    hidden_out, weights, features = np.empty(len(out[0]), kind), np.empty(len(gating[0]), kind), np.empty(size, kind)
    d_re, d_im = np.empty(size, kind), np.empty(size if parts == 2 else 0, kind)
    choice, best = np.empty(n, np.int32), np.empty(n, kind)
    nothing = np.empty(0, kind)
    for row in range(len(x)):
        u = x[row]
        _affine(router, nothing, u, logits)
        if len(m):
            _network(magnitude[0], magnitude[1], magnitude[2], magnitude[3], u, hidden_m, m)
        if parts == 2:
            _network(phase[0], phase[1], phase[2], phase[3], u, hidden_p, p)
        _diagonal(rising, turns, m, rate, p, d_re, d_im)
        if len(drive):
            _affine(drive, nothing, u, b)
        for head in range(n_heads):
            entry = np.argmax(logits[head * n_entries : (head + 1) * n_entries])
            _choice(column, scores[head, entry], choice, best)
            start = head * n
            for part in range(parts):
                for q in range(n):
                    h_next[row, part, head, q] = b[part * size + start + q] if len(drive) else 0
            for q in range(n):
                source, target = (q, choice[q]) if column else (choice[q], q)
                re = h[row, 0, head, source]
                if parts == 1:
                    h_next[row, 0, head, target] += d_re[start + q] * re
                else:
                    im = h[row, 1, head, source]
                    h_next[row, 0, head, target] += d_re[start + q] * re - d_im[start + q] * im
                    h_next[row, 1, head, target] += d_re[start + q] * im + d_im[start + q] * re
        if len(gating[0]):
            _gated(gating[0], gating[1], gating[2], eps, u, h_next[row], weights, features)
            _network(out[0], out[1], out[2], out[3], features, hidden_out, y[row])
        else:
            _network(out[0], out[1], out[2], out[3], h_next[row].reshape(-1), hidden_out, y[row])
        for i in range(len(skip)):
            y[row, i] += skip[i] * u[i]
