"""How influence fades with distance: a curve with its slope, half-life and far share.

    log influence(t, s) ~ c - kappa (t - s) ;   half-life = log 2 / kappa

Letters: B = rows, T = outputs, L = tokens. Source: "Understanding and Mitigating Bottlenecks of State Space Models through the
Lens of Recency and Over-smoothing" (arXiv 2501.00658).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError

_ROUNDING = 1e-12
"""A curve of logs that falls by less is flat."""


@dataclass(frozen=True)
class InfluenceCurve:
    """Influence by distance ``d = t - s``, from ``d = 0``.

    Attributes:
        mean_log: mean of ``log influence`` over the pairs whose influence is not 0; ``-inf`` where there is none.
        low: tenth percentile of the same logs.
        high: ninetieth percentile.
        pairs: number of pairs at each distance.
        zeros: how many of them have no influence at all.
        slope: ``kappa``, fitted to ``mean_log`` by least squares over distances of at least ``fitted_from``; NaN if fewer than
            two distances count.
        fitted_from: the least distance that the slope and the half-life use.
        far_share: share of the squared influence that comes from at least so many tokens back, mean over outputs that have tokens
            that far back.
        first_token_gain: influence of the first token divided by the geometric mean of that of its two followers, over outputs
            further on; NaN for fewer than four tokens.
    """

    mean_log: Tensor
    low: Tensor
    high: Tensor
    pairs: Tensor
    zeros: Tensor
    slope: float
    fitted_from: int
    far_share: Tensor
    first_token_gain: float

    @property
    def half_life(self) -> float:
        """Distance in tokens over which influence halves along the fitted line; ``inf`` where it does not fall."""
        return math.log(2) / self.slope if self.slope > 0 else math.nan if math.isnan(self.slope) else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None stands for what is not a number."""
        return {
            "mean_log": [_plain(v) for v in self.mean_log.tolist()],
            "low": [_plain(v) for v in self.low.tolist()],
            "high": [_plain(v) for v in self.high.tolist()],
            "pairs": self.pairs.tolist(),
            "zeros": self.zeros.tolist(),
            "slope": _plain(self.slope),
            "fitted_from": self.fitted_from,
            "half_life": _plain(self.half_life),
            "far_share": [_plain(v) for v in self.far_share.tolist()],
            "first_token_gain": _plain(self.first_token_gain),
        }


def by_distance(influence: Tensor, *, fitted_from: int = 1, positions: list[int] | None = None) -> InfluenceCurve:
    """Average influence over pairs of equal distance.

    Means are of logs: means of the values themselves would show a few pairs only.

    Args:
        influence: ``(B, T, L)``, not negative; entries with s > t are not looked at.
        fitted_from: the least distance that the slope is fitted to.
        positions: the outputs t of the second dimension; None means ``0 .. L - 1``.

    Raises:
        InvalidInputError: shapes that do not fit, or a negative entry.

    Example:
        >>> d = torch.arange(8.0).unsqueeze(1) - torch.arange(8.0)
        >>> curve = by_distance((3 * 0.5**d).tril().unsqueeze(0))
        >>> round(curve.half_life, 6)
        1.0
    """
    n_rows, n_outputs, length = influence.shape if influence.ndim == 3 else (0, 0, 0)
    chosen = list(range(length)) if positions is None else positions
    if not n_rows or len(chosen) != n_outputs or bool((influence < 0).any()):
        raise InvalidInputError(f"influence needs shape (B, T, L) and no negative entry; got {tuple(influence.shape)}.")
    influence = influence.detach().double()
    outputs = torch.tensor(chosen)
    curves, pairs, zeros = [], [], []
    for d in range(max(chosen) + 1):
        reach = (outputs >= d).nonzero().squeeze(1)
        values = influence[:, reach, outputs[reach] - d].flatten()
        logs = values[values > 0].log()
        if len(logs):
            mean, low, high = logs.mean(), logs.quantile(0.1), logs.quantile(0.9)
        else:
            mean = low = high = torch.tensor(-math.inf, dtype=torch.float64)
        curves.append(torch.stack([mean, low, high]))
        pairs.append(len(values))
        zeros.append(len(values) - len(logs))
    mean_log, low, high = torch.stack(curves, dim=1)
    return InfluenceCurve(
        mean_log=mean_log,
        low=low,
        high=high,
        pairs=torch.tensor(pairs),
        zeros=torch.tensor(zeros),
        slope=_slope(mean_log, fitted_from),
        fitted_from=fitted_from,
        far_share=far_share(influence.square(), chosen),
        first_token_gain=_first_token_gain(influence, chosen),
    )


def far_share(energy: Tensor, positions: list[int]) -> Tensor:
    """Share of ``energy (B, T, L)`` at outputs ``positions`` from at least d tokens back, for d from 0 to the last output; mean
    over the outputs that have tokens that far back and any energy at all."""
    outputs = torch.tensor(positions)
    up_to = energy.cumsum(-1)
    total = up_to[:, torch.arange(len(outputs)), outputs]
    shares = []
    for d in range(max(positions) + 1):
        reach = (outputs >= d).nonzero().squeeze(1)
        whole = total[:, reach]
        far = up_to[:, reach, outputs[reach] - d][whole > 0] / whole[whole > 0]
        shares.append(far.mean() if len(far) else torch.tensor(math.nan, dtype=energy.dtype))
    return torch.stack(shares)


def _slope(mean_log: Tensor, fitted_from: int) -> float:
    d = torch.arange(len(mean_log), dtype=torch.float64)
    counts = (d >= fitted_from) & mean_log.isfinite()
    if int(counts.sum()) < 2:
        return math.nan
    d, y = d[counts] - d[counts].mean(), mean_log[counts]
    slope = -float((d * (y - y.mean())).sum() / d.square().sum())
    return 0.0 if abs(slope) * len(d) < _ROUNDING else slope


def _first_token_gain(influence: Tensor, positions: list[int]) -> float:
    later = [i for i, t in enumerate(positions) if t > 2]
    if not later:
        return math.nan
    logs = influence[:, later, :3].log()
    gain = (logs[..., 0] - logs[..., 1:].mean(-1)).flatten()
    gain = gain[gain.isfinite()]
    return float(gain.mean().exp()) if len(gain) else math.nan


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
