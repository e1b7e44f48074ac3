"""Memory for the results of the kernels.

A large result gets new pages from the system at every call, and that costs as much as filling them. Two remedies: NumPy asks
Linux for pages of 2 MB, where torch does so only if an environment variable says so; and buffers that no tensor uses any more
are used again, as a training loop asks for the same sizes at every step. At most 256 MiB are held back that way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 22
"""Bytes from which NumPy asks for huge pages."""

_HELD = 1 << 28
"""Bytes of all buffers that are known here, in use or not."""

_ALIGNMENT = 64


class _Buffers:
    """Buffers, each known to be free by nobody else referring to it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.known: list[np.ndarray[Any, Any]] = []

    def take(self, n_bytes: int) -> np.ndarray[Any, Any]:
        """At least ``n_bytes``, at most a quarter more."""
        with self.lock:
            for i in range(len(self.known)):
                if n_bytes <= len(self.known[i]) <= n_bytes + n_bytes // 4 and self._free(i):
                    self.known.append(self.known.pop(i))
                    return self.known[-1]
            found = np.empty(n_bytes, np.uint8)
            i = 0
            while i < len(self.known) and self._held() + n_bytes > _HELD:
                if self._free(i):
                    del self.known[i]  # least recently taken first
                else:
                    i += 1
            if self._held() + n_bytes <= _HELD:
                self.known.append(found)
            return found

    def _held(self) -> int:
        return sum(map(len, self.known))

    def _free(self, i: int) -> bool:
        return sys.getrefcount(self.known[i]) <= _ALONE


def _alone() -> int:
    """What ``sys.getrefcount`` says of an array in a list that nothing else refers to."""
    held = [np.empty(0)]
    return sys.getrefcount(held[0])


_ALONE = _alone()
_buffers = _Buffers()


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An uninitialised contiguous tensor, aligned to cache lines."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes < _LARGE:
        return torch.empty(shape, dtype=dtype)
    raw = _buffers.take(n_bytes + _ALIGNMENT)
    start = -raw.ctypes.data % _ALIGNMENT
    return torch.from_numpy(raw[start : start + n_bytes]).view(dtype).view(shape)
