"""How much of the tokens before it a block's output still responds to: energies of Jacobians by depth.

    E_l(t; a..b)    = sum_{s = a..b} |dz^l_t / dz^0_s|_F^2
    IRR_l(t)        = E_l(t; 1..t) / E_1(t; 1..t)        (or divided by the width, relative to the input)
    far_share_l(k)  = E_l(t; 1..t-k) / E_l(t; 1..t)

Letters: B = rows, ``z^0`` = embeddings, ``z^l`` = output of block l. The rate has no primary source as a measure of state-space
models; this definition is the library's. It does not lie in [0, 1], changes with the scale of inputs and norms, and says nothing
about what can be decoded; the far share is free of scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from statetrack.analysis.recency.distance import far_share
from statetrack.analysis.recency.jacobian import features_of, in_float64_model
from statetrack.analysis.recency.vjp import jacobian_rows, probe_energies
from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.models import Tagger

Reference = Literal["first block", "input"]


@dataclass(frozen=True)
class Retention:
    """Energies at one output by block.

    Attributes:
        energy: ``(blocks, B, t + 1)``, ``|dz^l_t / dz^0_s|_F^2`` for every s.
        rate: ``(blocks,)``, mean of the information retention rate over rows.
        far_share: ``(blocks, t + 1)``, mean share of the energy from at least k tokens back.
        position: t, counted from 0.
        reference: what the rate is relative to.
        probes: random probes; 0 for exact energies.
    """

    energy: Tensor
    rate: Tensor
    far_share: Tensor
    position: int
    reference: str
    probes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "rate": self.rate.tolist(),
            "far_share": self.far_share.tolist(),
            "position": self.position,
            "reference": self.reference,
            "probes": self.probes,
        }


def retention(
    model: Tagger,
    tokens: Tensor,
    *,
    position: int | None = None,
    reference: Reference = "first block",
    probes: int = 0,
    generator: torch.Generator | None = None,
) -> Retention:
    """Information retention by depth, in float64.

    Args:
        model: the model; it is left as it is.
        tokens: ``(B, L)``.
        position: t; None means the last.
        reference: what energies are divided by: that of the first block, or of the input (the width).
        probes: random probes per block; 0 takes every unit vector, which is exact.
        generator: of the probes; None means one seeded with 0.

    Raises:
        InvalidInputError: tokens, a position or probes that do not fit.
    """
    checked("reference", reference, Reference)
    if tokens.ndim != 2 or not tokens.shape[1] or probes < 0:
        raise InvalidInputError(f"tokens need shape (B, L) and probes at least 0; got {tuple(tokens.shape)} and {probes}.")
    t = tokens.shape[1] - 1 if position is None else position
    if not 0 <= t < tokens.shape[1]:
        raise InvalidInputError(f"position must lie in 0..{tokens.shape[1] - 1}, got {position}.")
    frozen = in_float64_model(model)
    x = frozen.embedding(tokens[:, : t + 1]).detach()
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    energies = []
    for depth in range(1, len(frozen.blocks) + 1):

        def function(u: Tensor, depth: int = depth) -> Tensor:
            return features_of(frozen, u, depth=depth)

        if probes:
            energies.append(probe_energies(function, x, [t], probes, generator)[:, 0])
        else:
            energies.append(jacobian_rows(function, x, [t]).square().sum((2, 4))[:, 0])
    energy = torch.stack(energies)
    total = energy.sum(-1)
    base = total[0] if reference == "first block" else torch.full_like(total[0], x.shape[-1])
    shares = torch.stack([far_share(each.unsqueeze(1), [t]) for each in energy])
    return Retention(energy, (total / base).mean(1), shares, t, reference, probes)
