"""The usual start of a time step: ``dt = softplus(bias)`` log-uniform over two decades.

Source: Mamba (arXiv 2312.00752).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def time_step_bias(size: int, low: float = 1e-3, high: float = 1e-1, floor: float = 1e-4) -> Tensor:
    """``softplus^-1(dt)``, shape ``(size,)``, for ``dt`` log-uniform in ``[low, high]`` and at least ``floor``."""
    dt = torch.empty(size).uniform_(math.log(low), math.log(high)).exp().clamp(min=floor)
    return dt + torch.log(-torch.expm1(-dt))
