"""How far apart the vectors of different tokens lie.

    distance  mean_{t != s} |z_t - z_s|          relative  distance / mean_t |z_t|          cosine  1 - mean_{t != s} cos(z_t,
    z_s) energy    mean_{t != s} |z_t - z_s|^2 = 2 L / (L - 1) (mean_t |z_t|^2 - |mean_t z_t|^2)

Letters: B = rows, L = tokens, D = width. Distances grow with the scale of activations: compare layers by ``relative`` and
``cosine``. The normalisation is this library's; the quantity is that of arXiv 2501.00658.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.state_use.functionals import entropy_rank
from statetrack.errors import InvalidInputError

_TOKENS = 512
"""More tokens than that are thinned out evenly where every pair is looked at."""


@dataclass(frozen=True)
class Sharpness:
    """Means over rows.

    Attributes:
        distance: mean distance of two different tokens.
        relative: the same divided by the mean length of a token's vector.
        cosine: one minus the mean cosine; tokens without length count as 0.
        energy: mean squared distance, over all pairs.
        effective_rank: ``exp`` of the entropy of the singular values of ``Z (L, D)``, not centred.
        tokens: L.
        pairs: pairs of tokens per row that distances and cosines were taken over.
    """

    distance: float
    relative: float
    cosine: float
    energy: float
    effective_rank: float
    tokens: int
    pairs: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dict(vars(self))


def sharpness(z: Tensor) -> Sharpness:
    """Sharpness of vectors ``z (B, L, D)``, real or complex, in float64.

    Raises:
        InvalidInputError: not three dimensions, or fewer than two tokens.

    Example:
        >>> found = sharpness(torch.eye(3).unsqueeze(0))
        >>> round(found.distance, 6), round(found.cosine, 6), round(found.effective_rank, 6)
        (1.414214, 1.0, 3.0)
    """
    if z.ndim != 3 or z.shape[1] < 2 or 0 in z.shape:
        raise InvalidInputError(f"z needs shape (B, L, D) with at least two tokens, got {tuple(z.shape)}.")
    z = z.detach()
    z = torch.view_as_real(z).flatten(2).double() if z.is_complex() else z.double()
    length = z.shape[1]
    centred = z - z.mean(1, keepdim=True)  # a difference of two large squares would leave no digits
    energy = 2 * length / (length - 1) * centred.square().sum(-1).mean()
    rank = entropy_rank(torch.linalg.svdvals(z)).mean()
    few = z[:, torch.linspace(0, length - 1, min(length, _TOKENS)).round().long()]
    norms = few.norm(dim=-1)
    pairs = few.shape[1] * (few.shape[1] - 1)
    distance = torch.cdist(few, few, compute_mode="donot_use_mm_for_euclid_dist").sum((1, 2)) / pairs
    unit = few / torch.where(norms > 0, norms, 1.0).unsqueeze(-1)
    cosines = (unit.sum(1).square().sum(-1) - (norms > 0).sum(-1)) / pairs
    mean_norm = norms.mean(-1)
    relative = torch.where(mean_norm > 0, distance / torch.where(mean_norm > 0, mean_norm, 1.0), 0.0)
    return Sharpness(
        distance=float(distance.mean()),
        relative=float(relative.mean()),
        cosine=float((1 - cosines).mean()),
        energy=float(energy),
        effective_rank=float(rank),
        tokens=length,
        pairs=pairs,
    )
