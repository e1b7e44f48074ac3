"""What feeds a scan of complex states: complex numbers from parts, parts from complex numbers, and diagonals from logits.

Each is one pass over its arguments on a CPU, and a few torch operations elsewhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from statetrack.scan.backends import NUMBA_MISSING


def join_parts(parts: Tensor) -> Tensor:
    """Complex ``(..., n)`` from real ``(..., 2 n)``: real parts first, then imaginary parts."""
    if _on_cpu(parts):
        from statetrack.scan.cpu import parts as kernels

        return kernels.join_parts(parts)
    re, im = parts.chunk(2, dim=-1)
    return torch.complex(re.contiguous(), im.contiguous())


def split_parts(z: Tensor) -> Tensor:
    """Real ``(..., 2 n)``, real parts first, from complex ``(..., n)``."""
    if _on_cpu(z):
        from statetrack.scan.cpu import parts as kernels

        return kernels.split_parts(z)
    return torch.cat([z.real, z.imag], dim=-1)


def polar_diagonal(decay: Tensor | None, rate: Tensor | None, phase: Tensor, *, rising: bool, turns: bool) -> Tensor:
    """``D = |D| exp(i phi)`` from logits.

    Args:
        decay: ``(..., n)`` logits of the modulus; None: the modulus is 1.
        rate: ``(n,)``, or None for 1: ``log |D| = -rate softplus(decay)``.
        phase: ``(..., n)``, the angle or its logits.
        rising: the modulus rises with the logits: ``softplus(-decay)``, which without ``rate`` makes it their sigmoid.
        turns: ``phi = 2 pi sigmoid(phase)`` rather than ``phase``.
    """
    if _on_cpu(phase):
        from statetrack.scan.cpu import parts as kernels

        n = phase.shape[-1]
        logits = None if decay is None else decay.reshape(-1, n)
        return kernels.polar(logits, rate, phase.reshape(-1, n), rising, turns).view(phase.shape)
    angle = 2 * math.pi * phase.sigmoid() if turns else phase
    if decay is None:
        return torch.polar(torch.ones_like(angle), angle)
    log_modulus = -softplus(-decay if rising else decay)
    return torch.polar((log_modulus if rate is None else rate * log_modulus).exp(), angle)


def _on_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu" and not NUMBA_MISSING
