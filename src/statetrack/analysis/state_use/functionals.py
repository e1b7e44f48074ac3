"""Numbers that say how many entries of a non-negative vector count: the one place where they are defined.

    p = s / sum s
    participation ratio  (sum s)^2 / sum s^2          entropy rank  exp(-sum p log p)          stable rank  sum s^2 / max s^2
    rank                 #{s > max(atol, rtol max s)}          energy rank(q)  least r whose r largest s^2 are q of their sum

Each works along the last dimension, and whoever calls says whether ``s`` holds singular values or eigenvalues; energies are
squared singular values. ``rank >= entropy rank >= participation ratio``, the Renyi orders 0, 1 and 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError


def numerical_rank(s: Tensor, *, rtol: float | None = None, atol: float = 0.0, shape: tuple[int, int] | None = None) -> Tensor:
    """Entries above a tolerance, int64.

    Args:
        s: ``(..., n)``, not negative.
        rtol: relative to the largest entry; None means the larger side of the matrix times the machine epsilon.
        atol: absolute.
        shape: of the matrix, for that default; None means ``(n, n)``.

    Example:
        >>> numerical_rank(torch.tensor([[2.0, 1e-9, 0.0], [0.0, 0.0, 0.0]])).tolist()
        [1, 0]
    """
    s = _checked(s)
    rtol = max(shape or (s.shape[-1],)) * torch.finfo(s.dtype).eps if rtol is None else rtol
    tau = (rtol * s.amax(-1, keepdim=True)).clamp(min=atol)
    return (s > tau).sum(-1)


def participation_ratio(s: Tensor) -> Tensor:
    """``(sum s)^2 / sum s^2``, in [1, n]; 0 for zeros.

    Example:
        >>> round(participation_ratio(torch.tensor([4.0, 2.0, 1.0, 1.0])).item(), 4)
        2.9091
    """
    s = _scaled(s)
    return _ratio(s.sum(-1).square(), s.square().sum(-1))


def entropy_rank(s: Tensor) -> Tensor:
    """``exp`` of the entropy of ``s / sum s``, in [1, n]; 0 for zeros.

    Example:
        >>> round(entropy_rank(torch.tensor([4.0, 2.0, 1.0, 1.0])).item(), 4)
        3.3636
    """
    return torch.where(_checked(s).amax(-1) > 0, _entropy(s).exp(), 0.0)


def spectral_entropy(s: Tensor, *, normalised: bool = True) -> Tensor:
    """Entropy of ``s / sum s`` in nats, or divided by ``log n``; 0 for zeros and for n = 1."""
    entropy = _entropy(s)
    return entropy / max(math.log(max(s.shape[-1], 1)), math.log(2)) if normalised else entropy


def stable_rank(s: Tensor) -> Tensor:
    """``sum s^2 / max s^2`` of singular values, in [1, n]; 0 for zeros."""
    return _scaled(s).square().sum(-1)


def energy_rank(s: Tensor, share: float = 0.95) -> Tensor:
    """Least number of singular values whose squares reach a share of the sum of squares, int64; 0 for zeros.

    Example:
        >>> energy_rank(torch.tensor([10.0, 5.0, 2.0, 1.0, 0.5]), 0.9).item()
        2
    """
    if not 0 < share <= 1:
        raise InvalidInputError(f"share must lie in (0, 1], got {share}.")
    energy = _scaled(s).square().sort(-1, descending=True).values
    reached = energy.cumsum(-1) >= share * energy.sum(-1, keepdim=True) * (1 - 4 * torch.finfo(energy.dtype).eps)
    return torch.where(energy.sum(-1) > 0, reached.to(torch.int64).argmax(-1) + 1, 0)


def hoyer_sparsity(h: Tensor) -> Tensor:
    """``(sqrt n - |h|_1 / |h|_2) / (sqrt n - 1)``: 1 for one non-zero entry and for zeros, 0 for equal moduli.

    Example:
        >>> round(hoyer_sparsity(torch.tensor([3.0, 4.0, 0.0, 0.0])).item(), 6)
        0.6
    """
    h = _scaled(h.abs())
    root = math.sqrt(h.shape[-1])
    if h.shape[-1] == 1:
        return torch.ones_like(h[..., 0])
    ratio = _ratio(h.sum(-1), h.square().sum(-1).sqrt())
    return torch.where(ratio > 0, (root - ratio) / (root - 1), 1.0)


def small_share(h: Tensor, factor: float = 0.1) -> Tensor:
    """Share of entries whose modulus lies below ``factor`` times the root mean square; 1 for zeros."""
    h = _scaled(h.abs())
    rms = h.square().mean(-1, keepdim=True).sqrt()
    return torch.where(rms[..., 0] > 0, (h < factor * rms).to(h.dtype).mean(-1), 1.0)


def _checked(s: Tensor) -> Tensor:
    if s.ndim < 1 or not s.shape[-1] or not s.is_floating_point() or bool((s < 0).any()):
        raise InvalidInputError(f"A spectrum is a real vector (..., n) without negative entries, got {s.dtype} {tuple(s.shape)}.")
    return s.detach()


def _scaled(s: Tensor) -> Tensor:
    """Divided by the largest entry, so that squares neither overflow nor vanish."""
    s = _checked(s)
    top = s.amax(-1, keepdim=True)
    return s / torch.where(top > 0, top, 1.0)


def _entropy(s: Tensor) -> Tensor:
    s = _scaled(s)
    total = s.sum(-1, keepdim=True)
    p = s / torch.where(total > 0, total, 1.0)
    return -torch.special.xlogy(p, p).sum(-1)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b > 0, a / torch.where(b > 0, b, 1.0), 0.0)
