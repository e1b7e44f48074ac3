"""From a differential equation ``h' = a h + u`` to a recurrence ``h_t = decay h_{t-1} + gain u_t``.

Letters: a = rate, dt = time step. Source: S4D (arXiv 2206.11893), S5 (arXiv 2208.04933).
"""

from __future__ import annotations

import torch
from torch import Tensor


def zero_order_hold(rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """Decay ``exp(dt a)`` and gain ``(exp(dt a) - 1) / a`` of complex rates, exact for inputs that stay constant within a step.

    No digits are lost where ``dt a`` is small.
    """
    re, im = dt * rate.real, dt * rate.imag
    decay = torch.polar(re.exp(), im)
    # expm1(re + i im), whose parts do not cancel: cos(im) - 1 = -2 sin(im / 2)^2.
    minus_one = torch.complex(re.expm1() * im.cos() - 2 * (im / 2).sin().square(), re.exp() * im.sin())
    return decay, minus_one / rate


def bilinear(rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """Decay ``(1 + dt a / 2) / (1 - dt a / 2)`` and gain ``dt / (1 - dt a / 2)``."""
    half = dt * rate / 2
    return (1 + half) / (1 - half), dt / (1 - half)
