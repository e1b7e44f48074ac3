"""Memory for the results of the kernels.

A large result gets new pages from the system at every call, and taking them 4 KB at a time costs more than filling them. NumPy
asks Linux for pages of 2 MB; torch does so only if an environment variable says so, hence the detour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 22
"""Bytes from which NumPy asks for huge pages."""

_ALIGNMENT = 64


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An uninitialised contiguous tensor, aligned to cache lines."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes < _LARGE:
        return torch.empty(shape, dtype=dtype)
    raw = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return torch.from_numpy(raw[start : start + n_bytes]).view(dtype).view(shape)
