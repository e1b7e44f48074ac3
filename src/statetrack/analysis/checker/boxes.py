"""Pairs ``(lo, hi)`` of float64 arrays, widened at every operation by what float32 may lose.

``U`` is the loss of one operation, ``F`` that of one function, ``T`` covers underflow; float64 loses far less, which factors of 2
and 1.01 cover. Moving values, adding 0 and multiplying by 0, 1 or -1 is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from statetrack.errors import StateTrackError
from statetrack.models import Dropout

Array: TypeAlias = Any
Box: TypeAlias = tuple[Any, Any]
U, F, T = 2.0**-24, 2.0**-20, 2.0**-110


class Refused(StateTrackError):
    """A certificate that proves nothing about the weights it is held against."""


def demand(holds: Any, otherwise: str) -> None:
    """Raise ``Refused`` unless something holds."""
    if not bool(holds):
        raise Refused(f"The certificate is refused: {otherwise}.")


def array(tensor: Tensor) -> Array:
    """The numbers of a tensor in float64."""
    return tensor.detach().double().numpy()


def exact(tensor: Tensor) -> Box:
    """A tensor that is known exactly."""
    return array(tensor), array(tensor)


def hull(boxes: list[Box]) -> Box:
    """The smallest box around some boxes."""
    return np.min([lo for lo, _ in boxes], axis=0), np.max([hi for _, hi in boxes], axis=0)


def size(x: Box) -> Array:
    """The largest modulus."""
    return np.maximum(np.abs(x[0]), np.abs(x[1]))


def zero(x: Box) -> Array:
    """Where a box holds nothing but 0."""
    return (x[0] == 0) & (x[1] == 0)


def widen(x: Box, by: Array) -> Box:
    """Both ends moved outward."""
    return x[0] - by, x[1] + by


def add(x: Box, y: Box) -> Box:
    """The sum."""
    z = (x[0] + y[0], x[1] + y[1])
    return widen(z, np.where(zero(x) | zero(y), 0, 2 * U * size(z) + T))


def minus(x: Box) -> Box:
    """The negative."""
    return -x[1], -x[0]


def mul(x: Box, y: Box) -> Box:
    """The product; between 0 and ``x`` where ``y`` lies in [0, 1], since rounding keeps order."""
    corners = [a * b for a in x for b in y]
    z = (np.minimum.reduce(corners), np.maximum.reduce(corners))
    keeps = [(v[0] == v[1]) & np.isin(v[0], (-1, 0, 1)) for v in (x, y)]
    lo, hi = widen(z, np.where(keeps[0] | keeps[1], 0, 2 * U * size(z) + T))
    inside = (y[0] >= 0) & (y[1] <= 1)
    return np.where(inside, np.maximum(lo, np.minimum(x[0], 0)), lo), np.where(inside, np.minimum(hi, np.maximum(x[1], 0)), hi)


def dot(weight: Array, x: Box, bias: Array = 0.0, n_terms: int = 0) -> Box:
    """``weight x + bias`` along the last axis, from midpoint and radius."""
    mid, rad = (x[0] + x[1]) / 2, (x[1] - x[0]) / 2
    total = (np.abs(mid) + rad) @ np.abs(weight).T + np.abs(bias)
    rounding = np.where(total > 0, (max(n_terms, len(weight.T)) + 3) * (1.01 * U * total + T), 0)
    centre = mid @ weight.T + bias
    return widen((centre, centre), rad @ np.abs(weight).T + rounding)


def rising(function: Callable[[Array], Array], x: Box) -> Box:
    """An increasing function."""
    z = (function(x[0]), function(x[1]))
    return widen(z, F * size(z) + T)


def sigmoid(v: Array) -> Array:
    """``1 / (1 + exp(-v))``."""
    return np.exp(-np.logaddexp(0, -v))


def valley(function: Callable[[Array], Array], bottom: float, least: float, x: Box) -> Box:
    """A function that falls to ``least`` near ``bottom`` and rises from there."""
    ends = function(x[0]), function(x[1])
    z = (np.where((x[0] < bottom + 0.01) & (x[1] > bottom - 0.01), least, np.minimum(*ends)), np.maximum(*ends))
    return widen(z, F * size(x) + T)


def gelu(x: Box) -> Box:
    """``x Phi(x)``."""
    return valley(lambda v: v * np.vectorize(lambda a: math.erfc(-a / math.sqrt(2)) / 2)(v), -0.752, -0.17, x)


def silu(x: Box) -> Box:
    """``x sigmoid(x)``."""
    return valley(lambda v: v * sigmoid(v), -1.278, -0.2785, x)


def apply(module: nn.Module, x: Box) -> Box:
    """A stateless module in evaluation mode."""
    if isinstance(module, nn.Linear):
        return dot(array(module.weight), x, 0.0 if module.bias is None else array(module.bias))
    if isinstance(module, nn.GELU) and module.approximate == "none":
        return gelu(x)
    if isinstance(module, nn.Sequential):
        for part in module:
            x = apply(part, x)
        return x
    if isinstance(module, nn.LayerNorm):
        return add(mul(normed(x, module.eps, centre=True), exact(module.weight)), exact(module.bias))
    if isinstance(module, nn.RMSNorm):
        return mul(normed(x, 2.0**-23 if module.eps is None else module.eps, centre=False), exact(module.weight))
    demand(isinstance(module, nn.Identity | Dropout), f"{type(module).__name__} cannot be checked")
    return x


def normed(x: Box, eps: float, *, centre: bool) -> Box:
    """``c / sqrt(mean(c^2) + eps)`` along the last axis, for ``c = x`` less its mean or ``c = x``.

    Float32 may be off by a few ``n U`` of the largest entry in ``c`` and of its square in the mean of squares.
    """
    n, most = x[0].shape[-1], size(x).max(-1, keepdims=True)
    c = widen(dot(np.eye(n) - 1 / n, x), 2 * (n + 8) * U * most) if centre else x
    low = np.where((c[0] < 0) & (c[1] > 0), 0, np.minimum(np.abs(c[0]), np.abs(c[1]))) ** 2
    high, loss = size(c) ** 2, (4 * n + 120) * U * most**2
    rest = [np.maximum(s.sum(-1, keepdims=True) - s, 0) / n for s in (low, high)]
    near, far = np.maximum(rest[0] - loss, 0) + eps, rest[1] + loss + eps
    lo = c[0] / np.sqrt(c[0] ** 2 / n + np.where(c[0] >= 0, far, near))
    hi = c[1] / np.sqrt(c[1] ** 2 / n + np.where(c[1] >= 0, near, far))
    return widen((lo, hi), F * size((lo, hi)) + T)
