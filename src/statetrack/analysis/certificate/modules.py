"""Bounds of torch's stateless modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from statetrack.analysis.certificate.intervals import Array, Interval, centred, gelu, linear
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.models import Dropout


def values(tensor: Tensor | None, default: float = 0.0) -> Array | float:
    """A tensor's numbers in float64, or a default where there is none."""
    return default if tensor is None else Interval.point(tensor).lo


def bounds(module: nn.Module, x: Interval) -> Interval:
    """What a module in evaluation mode may give for inputs ``(..., E)`` within intervals.

    Raises:
        Undecided: nothing is known about modules of this kind.
    """
    match module:
        case nn.Linear():
            return linear(x, Interval.point(module.weight).lo, values(module.bias))
        case nn.GELU(approximate="none"):
            return gelu(x)
        case nn.LayerNorm():
            return scale_and_shift(centred(x, module.eps), module)
        case nn.RMSNorm():
            eps = torch.finfo(torch.float32).eps if module.eps is None else module.eps
            return scale_and_shift(centred(x, eps, mean=False), module)
        case nn.Sequential():
            for part in module:
                x = bounds(part, x)
            return x
        case nn.Identity() | Dropout():
            return x
    raise Undecided(f"there are no bounds for {type(module).__name__}")


def scale_and_shift(x: Interval, norm: nn.LayerNorm | nn.RMSNorm) -> Interval:
    """A norm's trained scale and shift."""
    if norm.weight is not None:
        x = x * Interval.point(norm.weight)
    bias = getattr(norm, "bias", None)
    return x if bias is None else x + Interval.point(bias)
