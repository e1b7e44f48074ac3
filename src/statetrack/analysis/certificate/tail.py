"""From what leaves the last layer to the scores: by how much the right class leads.

    f = norm(z) ;   scores = W f + b ;   lead of class t over c:   (W_t - W_c) f + b_t - b_c

Behind a layer norm with scale g and shift s this is ``(a . z) / sigma + k`` with ``a = (W_t - W_c) g`` less its mean,
``sigma`` the deviation of ``z`` and ``k = (W_t - W_c) s + b_t - b_c``. A linear function of ``z`` is bounded as sharply for a
sum over heads as for one vector. Letters: M = cases, C = classes, E = ``d_model``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import nn

from statetrack.analysis.certificate.components import blocks_of, leave
from statetrack.analysis.certificate.intervals import FUNCTION, UNIT, Array, Interval
from statetrack.analysis.certificate.modules import bounds
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]

_LAST_SUMS = 4
"""Additions between the sums of single pieces and ``z``: bias, skip, residual path and one to spare."""


class Tail:
    """The last norm and the head of a model.

    Args:
        model: in evaluation mode.
    """

    def __init__(self, model: Tagger) -> None:
        self.model, self.block = model, blocks_of(model)[-1]
        self.weight, self.bias = (Interval.point(p).lo for p in (model.head.weight, model.head.bias))
        norm = self.block.norms[0] if self.block.norm_kind == "post" else model.norm
        self.norm = norm if isinstance(norm, nn.LayerNorm) and self.block.feedforward is None else None
        n = self.weight.shape[1]
        self.scale, self.shift = np.ones(n), np.zeros(n)
        if self.norm is not None:
            self.scale, self.shift = (Interval.point(p).lo for p in (self.norm.weight, self.norm.bias))

    @property
    def direct(self) -> bool:
        """Whether the lead is a linear function of ``z`` up to its deviation: no feed-forward in between."""
        return self.block.feedforward is None

    def project(self, z: Interval, classes: IntArray) -> Array:
        """Lower bounds ``(M, C)`` of ``a . z`` for every rival of the right class ``(M,)`` of each case."""
        found = np.empty((len(classes), len(self.weight)))
        for target in np.unique(classes):
            rows = np.flatnonzero(classes == target)
            a = self._directions(int(target))
            found[rows] = z.lo[rows] @ np.maximum(a, 0).T + z.hi[rows] @ np.minimum(a, 0).T
        return found

    def leads(self, projected: Array, z: Interval, classes: IntArray) -> Array:
        """Lower bounds ``(M, C)`` of the leads of the right classes ``(M,)``; infinite over themselves.

        Args:
            projected: lower bounds of ``a . z``, summed over all pieces.
            z: ``(M, E)``.
            classes: the right classes.
        """
        if not self.direct:
            f = bounds(self.model.norm, leave(self.block, z))
            projected, z = self.project(f, classes), f
        found = np.empty(projected.shape)
        for target in np.unique(classes):
            rows = np.flatnonzero(classes == target)
            found[rows] = self._leads(projected[rows], z[rows], int(target))
            found[rows, target] = np.inf
        return found

    def _directions(self, target: int) -> Array:
        a = (self.weight[target] - self.weight) * self.scale
        return np.asarray(a - a.mean(axis=1, keepdims=True) if self.norm is not None else a)

    def _leads(self, projected: Array, z: Interval, target: int) -> Array:
        n = self.weight.shape[1]
        a, difference = self._directions(target), self.weight[target] - self.weight
        z = z.rounded(z.size, _LAST_SUMS)
        linear = projected - _LAST_SUMS * 2 * UNIT * z.size @ np.abs(a).T
        if self.norm is None:
            size = z.size @ np.abs(self.weight).T + np.abs(self.bias)
            return np.asarray(
                linear + self.bias[target] - self.bias - (n + 2) * 1.001 * UNIT * (size + size[:, target : target + 1])
            )
        low, high = self._deviation(z, linear, a)
        rest = difference @ self.shift + self.bias[target] - self.bias
        lead = np.where(linear >= 0, linear / high, linear / low) + rest
        return np.asarray(lead - self._error(z, low, difference, target))

    def _deviation(self, z: Interval, linear: Array, a: Array) -> tuple[Array, Array]:
        """Bounds ``(M, C)`` of ``sigma``. A vector whose projection is large cannot be short."""
        assert self.norm is not None
        n = z.shape[-1]
        mean = Interval(z.lo.mean(-1, keepdims=True), z.hi.mean(-1, keepdims=True))
        c = Interval(z.lo - mean.hi, z.hi - mean.lo)
        high = np.minimum((z.size**2).mean(-1), (c.size**2).mean(-1))[:, None]
        least = np.where((c.lo < 0) & (c.hi > 0), 0, np.minimum(np.abs(c.lo), np.abs(c.hi)))
        along = np.maximum(linear, 0) ** 2 / (n * np.maximum((a**2).sum(-1), 1e-300))
        low = np.maximum((least**2).mean(-1)[:, None], along)
        return np.sqrt(low + self.norm.eps) * (1 - 1e-12), np.sqrt(high + self.norm.eps) * (1 + 1e-12)

    def _error(self, z: Interval, sigma: Array, difference: Array, target: int) -> Array:
        """What float32 may lose from norm to lead, ``(M, C)``.

        Covered is any algorithm for the deviation that is not worse than the mean of squares less the square of the mean.
        """
        n = z.shape[-1]
        size = z.size.max(axis=-1, keepdims=True)
        wobble = (4 * n + 120) * UNIT * size**2
        variance = sigma**2 - wobble
        a = difference * self.scale
        length = np.sqrt((a**2).sum(-1) * n)  # the normalised vector is no longer than sqrt(n)
        shift = np.abs(difference) @ np.abs(self.shift)
        with np.errstate(invalid="ignore", divide="ignore"):
            normed = np.abs(a).sum(-1) * (4 * n + 24) * UNIT * size / np.sqrt(variance)
            normed = normed + length * (wobble / variance + FUNCTION)
        normed = np.where(wobble < variance, normed, np.inf)
        own = (
            np.sqrt(((self.weight * self.scale) ** 2).sum(-1) * n) + np.abs(self.weight) @ np.abs(self.shift) + np.abs(self.bias)
        )
        return np.asarray(1.001 * (normed + UNIT * (8 * (length + shift) + (n + 2) * (own + own[target]))))
