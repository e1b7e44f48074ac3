"""From raw series to what the network reads: scaling or one-hot codes, missing values and patches.

    z[t, c] = (x[t, c] - mean[c]) / scale[c] ,   0 where x is missing
    m[t, c] = 1 where x is missing, for the channels that have missing values in the training data
    u[l]    = [z, m] of the steps l P .. l P + P - 1, one after another ; steps behind the end are 0

With ``"one-hot"`` z[t] holds, for every channel c, K_c entries of which the one of the class x[t, c] is 1.

Letters: T = steps, C = channels, M = channels with an indicator, P = ``patch``, L = ceil(T / P) tokens, K_c = classes
of a channel, F = P (C + M), or P (K_1 + .. + K_C + M).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.timeseries.panel import Panel, Series

Scaling = Literal["channels", "series", "none", "one-hot"]
_MOST_CLASSES = 65_536


@dataclass(frozen=True)
class Preprocessing:
    """A fitted map from series ``(T, C)`` to tokens ``(L, F)``.

    Attributes:
        scaling: ``"channels"`` standardises with the moments of the training data, ``"series"`` with those of the series itself
            (which a stream cannot know), ``"none"`` leaves values as they are, ``"one-hot"`` takes them as numbers of classes.
        patch: P, steps per token.
        mean: ``(C,)``.
        scale: ``(C,)``.
        flagged: ``(C,)`` bool, channels with an indicator of missing values.
        classes: K_c of each channel with ``"one-hot"``, otherwise empty; a class that training did not have becomes all zeros.
    """

    scaling: Scaling
    patch: int
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    flagged: npt.NDArray[np.bool_]
    classes: tuple[int, ...] = ()

    @classmethod
    def fit(cls, panel: Panel, *, scaling: Scaling, patch: int) -> Preprocessing:
        """Take moments and missing channels from training data.

        Raises:
            InvalidInputError: a scaling that does not exist, a patch below 1, or values that are no numbers of classes.
        """
        checked("scaling", scaling, Scaling)
        if isinstance(patch, bool) or not isinstance(patch, int | np.integer) or patch < 1:
            raise InvalidInputError(f"patch must be a whole number of at least 1; got {patch!r}.")
        n_channels = panel[0].shape[1]
        flagged = np.zeros(n_channels, dtype=bool)
        for series in panel:
            flagged |= np.isnan(series).any(axis=0)
        mean, scale = _moments(panel) if scaling == "channels" else (np.zeros(n_channels), np.ones(n_channels))
        classes = _classes(panel) if scaling == "one-hot" else ()
        return cls(scaling, int(patch), mean.astype(np.float32), scale.astype(np.float32), flagged, classes)

    @property
    def n_features(self) -> int:
        """F."""
        return self.patch * ((sum(self.classes) or len(self.mean)) + int(self.flagged.sum()))

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
        if self.classes:
            codes = [series[:, c, None] == np.arange(k, dtype=np.float32) for c, k in enumerate(self.classes)]
            steps = np.concatenate(codes, axis=1).astype(np.float32)
        else:
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
        return {"scaling": self.scaling, "patch": self.patch, **moments, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Preprocessing:
        """The inverse of ``to_dict``."""
        mean, scale = (np.asarray(data[name], dtype=np.float32) for name in ("mean", "scale"))
        return cls(data["scaling"], data["patch"], mean, scale, np.asarray(data["flagged"], dtype=bool), tuple(data["classes"]))


class Tokens(Sequence[npt.NDArray[np.float32]]):
    """Series as tokens ``(L, F)``, which are made when they are asked for: one-hot codes of all series would fill the memory.

    Attributes:
        lengths: L of each series.
    """

    def __init__(self, panel: Panel, preprocessing: Preprocessing) -> None:
        self._panel, self._preprocessing = panel, preprocessing
        self.lengths = [-(-len(series) // preprocessing.patch) for series in panel]

    def __len__(self) -> int:
        return len(self._panel)

    def __getitem__(self, i: Any) -> Any:
        return self._preprocessing(self._panel[i])


def _classes(panel: Panel) -> tuple[int, ...]:
    found = np.concatenate([series[~np.isnan(series).any(axis=1)] for series in panel])
    if (found != np.floor(found)).any() or (found < 0).any() or (found >= _MOST_CLASSES).any() or not len(found):
        raise InvalidInputError(f"scaling='one-hot' needs whole numbers from 0 to {_MOST_CLASSES - 1}, the classes of each step.")
    return tuple(int(most) + 1 for most in found.max(axis=0))


def _moments(panel: Panel) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of each channel over all steps that are there; a channel that does not vary keeps its size."""
    count = np.maximum(1, sum((~np.isnan(series)).sum(axis=0) for series in panel))
    mean = sum(np.nansum(series, axis=0, dtype=np.float64) for series in panel) / count
    variance = sum(np.nansum((series - mean) ** 2, axis=0, dtype=np.float64) for series in panel) / count
    scale = np.sqrt(variance)
    return mean, np.where(scale > 1e-6 * np.maximum(1e-30, np.abs(mean)), scale, 1.0)
