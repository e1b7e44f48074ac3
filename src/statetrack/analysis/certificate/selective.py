"""Bounds of one step of PD-SSM, Flash PD-SSM and the complex diagonal layer, for some or all of their heads.

    h' = P(u) (D(u) h) + B u ;   y = readout(h', u) + d u

Letters: B = batch of cases, E = ``d_model``, G = heads looked at, N = ``d_state``, K = dictionary size. A state is a vector of F
numbers: ``G N``, or real and imaginary parts ``2 G N``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from statetrack.analysis.certificate.diagonal import always_one, diagonal_bounds
from statetrack.analysis.certificate.intervals import Array, Interval, cat, linear, silu, times, turn
from statetrack.analysis.certificate.modules import bounds
from statetrack.analysis.certificate.selections import Selections, selections_of
from statetrack.layers.selective import SelectiveLayer

IntArray = npt.NDArray[np.int64]


class Advance(NamedTuple):
    """What may follow some cases; a case whose selection is tied has several successors.

    Attributes:
        rows: ``(B',)`` the case that each successor belongs to.
        state: ``(B', F)``.
    """

    rows: IntArray
    state: Interval


class SelectiveBounds:
    """Bounds of some heads of a selective layer.

    Args:
        layer: in evaluation mode.
        heads: which ones, ascending; None for all.
    """

    def __init__(self, layer: SelectiveLayer, heads: tuple[int, ...] | None = None) -> None:
        self.layer, self.n = layer, layer.d_state
        self.heads = np.arange(layer.n_heads) if heads is None else np.array(heads)
        self.parts = 2 if layer.is_complex else 1
        self.column = getattr(layer, "orientation", "column") == "column"
        self.selections: Selections | None = selections_of(layer, self.heads)
        self.initial = _flat(layer.initial_state(1).h[0, self.heads])
        self.size = self.initial.shape[-1]

    @property
    def finite(self) -> bool:
        """Whether values are only ever moved about, so that there are finitely many states."""
        return self.layer.input is None and always_one(self.layer.diagonal)

    @property
    def separable(self) -> bool:
        """Whether the output is a sum over heads."""
        return self.layer.readout.kind != "mlp"

    def advance(self, u: Interval, state: Interval) -> Advance:
        """The states after one token, for layer inputs ``(B, E)`` and states ``(B, F)``.

        Raises:
            Undecided: too many selections are possible.
        """
        h = state.map(lambda end: end.reshape(len(end), self.parts, len(self.heads), self.n))
        v = self._turned(u, h) if self.column else h
        rows = np.arange(len(u.lo))
        if self.selections is not None:
            rows, index = self.selections(u, np.asarray(~v.equals(0).all(axis=1)))
            v = _scatter(v[rows], index) if self.column else _gather(v[rows], index)
        if not self.column:
            v = self._turned(u[rows], v)
        moved = v.map(lambda end: end.reshape(len(end), -1))
        if self.layer.input is None:
            return Advance(rows, moved)
        drive = self._drive(u)[rows]  # float32 may add it first, before the entries that meet
        return Advance(rows, (moved + drive).rounded(moved.size + drive.size, self.n + 1))

    def read(self, u: Interval, state: Interval) -> Interval:
        """What the heads add to the output ``(B, E)``; without the parts of ``constant``.

        Rounding is counted as in the whole sum, so that the bounds of groups of heads may be added up.
        """
        readout = self.layer.readout
        if readout.kind == "gated":
            return self._gated(u, state)
        first = readout.out[0] if isinstance(readout.out, nn.Sequential) else readout.out
        read = linear(state, self._columns(first, self.parts), n_terms=self._terms)
        if readout.kind != "mlp":
            return read
        assert isinstance(readout.out, nn.Sequential)
        return bounds(readout.out[1:], read + Interval.point(first.bias))

    def constant(self, u: Interval) -> Interval:
        """What the output holds whatever the state is, ``(B, E)``."""
        readout = self.layer.readout
        bias = None if readout.kind == "mlp" else getattr(readout.out, "bias", None)
        y = Interval.point(np.zeros(u.shape)) if bias is None else Interval.point(bias.expand(*u.shape))
        return y if readout.skip is None else y + u * Interval.point(readout.skip)

    @property
    def _terms(self) -> int:
        return self.layer.n_heads * self.n * self.parts + 3

    def _columns(self, module: nn.Module, parts: int) -> Array:
        """The columns of a linear map from all heads that read these heads."""
        assert isinstance(module, nn.Linear)
        weight = Interval.point(module.weight).lo
        return np.asarray(weight.reshape(len(weight), parts, -1, self.n)[:, :, self.heads].reshape(len(weight), -1))

    def _rows(self, module: nn.Module, u: Interval, parts: int = 1) -> Interval:
        """``(B, parts, G, N)``: what a linear map of the input gives to these heads."""
        shape = (len(u.lo), parts, -1, self.n)
        return bounds(module, u).map(lambda end: end.reshape(shape)[:, :, self.heads])

    def _drive(self, u: Interval) -> Interval:
        assert self.layer.input is not None
        return self._rows(self.layer.input, u, self.parts).map(lambda end: end.reshape(len(end), -1))

    def _gated(self, u: Interval, state: Interval) -> Interval:
        readout = self.layer.readout
        h = state.map(lambda end: end.reshape(len(end), self.parts, len(self.heads), self.n))
        weight = self._rows(readout.selector, u, self.parts)
        mixed = weight[:, 0] * h[:, 0]
        if self.parts == 2:
            mixed = mixed - weight[:, 1] * h[:, 1]
        gated = bounds(readout.head_norm, mixed) * silu(self._rows(readout.gate, u)[:, 0])
        return linear(gated.map(lambda end: end.reshape(len(end), -1)), self._columns(readout.out, 1), n_terms=self._terms)

    def _turned(self, u: Interval, h: Interval) -> Interval:
        """``D(u) h``."""
        if always_one(self.layer.diagonal):
            return h
        modulus, phase = diagonal_bounds(self.layer.diagonal, u)
        modulus = modulus[:, self.heads]
        if phase is None:
            return h.shrunk(modulus[:, None])
        cosine, sine = turn(phase[:, self.heads])
        re, im = times((modulus * cosine, modulus * sine), (h[:, 0], h[:, 1]))
        return cat([re[:, None], im[:, None]], axis=1)


def _scatter(v: Interval, index: IntArray) -> Interval:
    """``z[index[q]] += v[q]`` for ``v (B, parts, G, N)``, exact where no two entries that hold something meet."""
    n_cases, parts, heads, n = v.shape
    rows = np.arange(n_cases * parts).reshape(n_cases, parts, 1, 1) * heads + np.arange(heads)[:, None]
    place = rows * n + index[:, None]

    def summed(x: Array) -> Array:
        return np.asarray(np.bincount(place.ravel(), x.ravel(), minlength=x.size).reshape(x.shape), dtype=np.float64)

    held = summed((~v.equals(0)).astype(float))
    return Interval(summed(v.lo), summed(v.hi)).rounded(np.where(held > 1, summed(v.size), 0), held)


def _gather(v: Interval, index: IntArray) -> Interval:
    """``z[i] = v[index[i]]``, where an index of N stands for an entry that holds nothing."""
    padded = v.map(lambda end: np.concatenate([end, np.zeros_like(end[..., :1])], axis=-1))
    chosen = np.broadcast_to(index[:, None], (*v.shape[:-1], index.shape[-1]))
    return padded.map(lambda end: np.take_along_axis(end, chosen, -1))


def _flat(h: Tensor) -> Interval:
    """A state ``(G, N)`` as ``(1, F)``."""
    parts = [h.real, h.imag] if h.is_complex() else [h]
    return cat([Interval.point(part.reshape(1, -1)) for part in parts])
