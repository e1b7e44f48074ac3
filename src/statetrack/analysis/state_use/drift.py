"""Drift of the state beyond the lengths of training: statistics of states by position, held against those within.

    z(t) = (|h_t| - mean) / deviation ,   d(t)^2 = mean_n (h_tn - mu_n)^2 / var_n          mu, var, ... over the positions within

Letters: B = rows, L = tokens, H = heads, N = state size in real numbers. Buckets average over positions. Within its training
lengths a state defines what is usual; outside, growing norms or distances say that the layer meets states it was not trained on.
Source of the question: "Stuffed Mamba" (arXiv 2410.07145).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import has_states, in_float64, unroll
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.structures import Diagonal

_LEAST = 1e-12


@dataclass(frozen=True)
class Drift:
    """Statistics by bucket of positions.

    Attributes:
        ends: ``(buckets,)``, the last position of each bucket plus one.
        mean: ``(buckets, H)``, of the entries of the states.
        variance: ``(buckets, H)``, of the same entries.
        norm: ``(buckets, H)``, mean length of the states.
        norm_ratio: ``(buckets, H)``, to the mean length within.
        above: ``(buckets, H)``, share of states longer than 99 % of those within.
        distance: ``(buckets, H)``, mean distance to the states within, in deviations per entry; near 1 where nothing drifts.
        outliers: ``(buckets, H)``, largest over median root mean square of the entries.
        log_retention: ``(buckets, H)``, mean log of what diagonal transitions have left of the first token; NaN for others.
        inside: positions that define what is usual.
    """

    ends: Tensor
    mean: Tensor
    variance: Tensor
    norm: Tensor
    norm_ratio: Tensor
    above: Tensor
    distance: Tensor
    outliers: Tensor
    log_retention: Tensor
    inside: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: means over heads by bucket."""
        names = ("mean", "variance", "norm", "norm_ratio", "above", "distance", "outliers")
        return {"ends": self.ends.tolist(), "inside": self.inside, **{n: getattr(self, n).mean(1).tolist() for n in names}}


def state_drift(layer: Layer, x: Tensor, *, inside: int, bucket: int = 128) -> Drift:
    """How the states of a layer move away from those at the positions below ``inside``.

    Layers whose cache grows with every token are measured by their outputs.

    Args:
        layer: any layer.
        x: ``(B, L, d_model)``.
        inside: positions of the training lengths, at least 2.
        bucket: positions that are averaged.

    Raises:
        InvalidInputError: sizes that do not fit.
    """
    if bucket < 1 or not 2 <= inside <= x.shape[1]:
        raise InvalidInputError(f"need bucket >= 1 and 2 <= inside <= L = {x.shape[1]}; got {bucket} and {inside}.")
    retention = None
    if has_states(layer):
        run = unroll(layer, x)
        h = run.h[:, 1:]
        h = torch.cat([h.real, h.imag], dim=3) if h.is_complex() else h
        h = h.flatten(3)  # (B, L, H, N V)
        if isinstance(run.transitions, Diagonal):
            retention = run.transitions.value.abs().log().cumsum(1).mean(-1)
    else:
        with torch.no_grad():
            h = in_float64(layer)(x.detach().double())[0].unsqueeze(2)
    return drift_of(h, inside=inside, bucket=bucket, log_retention=retention)


def drift_of(h: Tensor, *, inside: int, bucket: int = 128, log_retention: Tensor | None = None) -> Drift:
    """The statistics of ``state_drift`` for states ``h (B, L, H, N)`` and log-retentions ``(B, L, H)``."""
    within = h[:, :inside]
    mu, var = within.mean((0, 1)), within.var((0, 1), unbiased=False).clamp(min=_LEAST)
    norms = h.norm(dim=-1)  # (B, L, H)
    usual = norms[:, :inside].mean((0, 1)).clamp(min=_LEAST)
    limit = norms[:, :inside].flatten(0, 1).quantile(0.99, dim=0)
    distance = ((h - mu).square() / var).mean(-1).sqrt()
    rows: list[list[Tensor]] = []
    ends = []
    for first in range(0, h.shape[1], bucket):
        part = slice(first, min(first + bucket, h.shape[1]))
        each = h[:, part]
        rms = each.square().mean((0, 1)).sqrt()
        left = norms.new_full(norms.shape[2:], torch.nan) if log_retention is None else log_retention[:, part].mean((0, 1))
        norm = norms[:, part].mean((0, 1))
        rows.append(
            [
                each.mean((0, 1, 3)),
                each.movedim(2, 0).flatten(1).var(1, unbiased=False),
                norm,
                norm / usual,
                (norms[:, part] > limit).to(h.dtype).mean((0, 1)),
                distance[:, part].mean((0, 1)),
                rms.amax(-1) / rms.median(-1).values.clamp(min=_LEAST),
                left,
            ]
        )
        ends.append(part.stop)
    mean, variance, norm, ratio, above, away, outliers, kept = (torch.stack(column) for column in zip(*rows, strict=True))
    return Drift(torch.tensor(ends), mean, variance, norm, ratio, above, away, outliers, kept, inside)
