"""From raw series to what the network reads: scaling, missing values and patches.

    z[t, c] = (x[t, c] - mean[c]) / scale[c] ,   0 where x is missing
    m[t, c] = 1 where x is missing, for the channels that have missing values in the training data
    u[l]    = [z, m] of the steps l P .. l P + P - 1, one after another ; steps behind the end are 0

Letters: T = steps, C = channels, M = channels with an indicator, P = ``patch``, L = ceil(T / P) tokens, F = P (C + M).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.timeseries.panel import Panel, Series

Scaling = Literal["channels", "series", "none"]


@dataclass(frozen=True)
class Preprocessing:
    """A fitted map from series ``(T, C)`` to tokens ``(L, F)``.

    Attributes:
        scaling: ``"channels"`` standardises with the moments of the training data, ``"series"`` with those of the series itself
            (which a stream cannot know), ``"none"`` leaves values as they are.
        patch: P, steps per token.
        mean: ``(C,)``.
        scale: ``(C,)``.
        flagged: ``(C,)`` bool, channels with an indicator of missing values.
    """

    scaling: Scaling
    patch: int
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    flagged: npt.NDArray[np.bool_]

    @classmethod
    def fit(cls, panel: Panel, *, scaling: Scaling, patch: int) -> Preprocessing:
        """Take moments and missing channels from training data.

        Raises:
            InvalidInputError: a scaling that does not exist, or a patch below 1.
        """
        checked("scaling", scaling, Scaling)
        if isinstance(patch, bool) or not isinstance(patch, int | np.integer) or patch < 1:
            raise InvalidInputError(f"patch must be a whole number of at least 1; got {patch!r}.")
        n_channels = panel[0].shape[1]
        flagged = np.zeros(n_channels, dtype=bool)
        for series in panel:
            flagged |= np.isnan(series).any(axis=0)
        mean, scale = _moments(panel) if scaling == "channels" else (np.zeros(n_channels), np.ones(n_channels))
        return cls(scaling, int(patch), mean.astype(np.float32), scale.astype(np.float32), flagged)

    @property
    def n_features(self) -> int:
        """F."""
        return self.patch * (len(self.mean) + int(self.flagged.sum()))

    @property
    def streams(self) -> bool:
        """Whether tokens depend on no later step."""
        return self.scaling != "series"

    def __call__(self, series: Series) -> npt.NDArray[np.float32]:
        """Tokens ``(ceil(T / P), F)`` of ``series (T, C)``."""
        mean, scale = self.mean, self.scale
        if self.scaling == "series":
            mean, scale = (moment.astype(np.float32) for moment in _moments([series]))
        missing = np.isnan(series)
        steps = np.where(missing, np.float32(0), (series - mean) / scale)
        if self.flagged.any():
            steps = np.concatenate([steps, missing[:, self.flagged].astype(np.float32)], axis=1)
        if self.patch == 1:
            return steps
        lacking = -len(steps) % self.patch
        if lacking:
            steps = np.concatenate([steps, np.zeros((lacking, steps.shape[1]), np.float32)])
        return steps.reshape(-1, self.n_features)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        moments = {"mean": self.mean.tolist(), "scale": self.scale.tolist(), "flagged": self.flagged.tolist()}
        return {"scaling": self.scaling, "patch": self.patch, **moments}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Preprocessing:
        """The inverse of ``to_dict``."""
        mean, scale = (np.asarray(data[name], dtype=np.float32) for name in ("mean", "scale"))
        return cls(data["scaling"], data["patch"], mean, scale, np.asarray(data["flagged"], dtype=bool))


def _moments(panel: Panel) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of each channel over all steps that are there; a channel that does not vary keeps its size."""
    count = np.maximum(1, sum((~np.isnan(series)).sum(axis=0) for series in panel))
    mean = sum(np.nansum(series, axis=0, dtype=np.float64) for series in panel) / count
    variance = sum(np.nansum((series - mean) ** 2, axis=0, dtype=np.float64) for series in panel) / count
    scale = np.sqrt(variance)
    return mean, np.where(scale > 1e-6 * np.maximum(1e-30, np.abs(mean)), scale, 1.0)
