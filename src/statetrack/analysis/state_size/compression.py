"""A smaller state for a trained layer, with the error that theory allows and the error that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import in_float64
from statetrack.analysis.state_size.balanced import System, balanced_truncation, error_bound, hankel_values, measured_error
from statetrack.analysis.state_size.fixed_layers import systems, with_systems
from statetrack.analysis.state_size.merging import merged
from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.layers.fixed import ModalLayer
from statetrack.layers.s4d import S4D
from statetrack.tasks.checks import whole_number

_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Compressed:
    """A smaller layer.

    Attributes:
        layer: it; its parameters can be trained on.
        method: how it was made.
        before: states per head, or modes, of the layer that was given.
        after: those that are left.
        exact: whether outputs are the same but for rounding.
        sigma: ``(C, N)``, Hankel singular values of every channel's system; None where states were merged.
        bound: on the gain of the error at any frequency, over channels, before skip and mixing; None where states were merged.
        error: that gain as measured, at most ``bound``; None where states were merged.
        output_error: largest difference of an output on the inputs that were given; None without inputs.
    """

    layer: Layer
    method: Literal["balanced truncation", "states merged"]
    before: int
    after: int
    exact: bool
    sigma: Tensor | None
    bound: float | None
    error: float | None
    output_error: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the layer."""
        plain = {name: value for name, value in vars(self).items() if name not in ("layer", "sigma")}
        return {**plain, "sigma": None if self.sigma is None else self.sigma.tolist()}


def compress(layer: Layer, d_state: int | None = None, *, tolerance: float | None = None, x: Tensor | None = None) -> Compressed:
    """Make the state of a trained layer smaller.

    Time-invariant layers (S4D, S5, LRU, LinOSS, which becomes an LRU) are truncated in balanced coordinates. Of PD layers in
    column form, states that cannot be reached are dropped and, of Flash PD-SSM, those that nothing tells apart merged. Other
    layers have no reduction that keeps their form and has a bound; ``analysis.state_use`` says what of their state is used.

    Args:
        layer: it is left as it is.
        d_state: modes to keep of a time-invariant layer; None means as few as ``tolerance`` allows.
        tolerance: of a time-invariant layer, the bound that is allowed, relative to its largest Hankel singular value (None means
            1e-3); of a PD layer, the difference of weights between states that are merged (None means 0, which is exact).
        x: ``(B, L, d_model)``, inputs to measure the difference of outputs on; for PD layers, inputs that select all maps which
            count, which PD-SSM needs.

    Raises:
        InvalidInputError: a layer whose structure does not allow it, with the reason, or numbers that do not fit.

    Example:
        >>> from statetrack.layers import make_layer
        >>> found = compress(make_layer("lru", 4, d_state=16), 8)
        >>> found.after, found.error <= found.bound
        (8, True)
    """
    if isinstance(layer, DictionaryLayer):
        if d_state is not None:
            raise InvalidInputError("A PD layer gets the states that its maps need; give a tolerance in place of d_state.")
        return _merged(layer, tolerance or 0.0, x)
    if isinstance(layer, ModalLayer | S4D):
        return _truncated(layer, d_state, _TOLERANCE if tolerance is None else tolerance, x)
    traits = layer.traits
    why = f"its transitions are {traits.structure}"
    if traits.input_dependent != "nothing":
        why += f" and depend on the input ({traits.input_dependent}), so there is no balanced truncation, nor states to merge"
    raise InvalidInputError(f"{type(layer).__name__} cannot be compressed in its own form: {why}.")


def _truncated(layer: Layer, d_state: int | None, tolerance: float, x: Tensor | None) -> Compressed:
    given = systems(layer)
    sigma = torch.stack([hankel_values(system) for system in given])
    size = sigma.shape[1]
    r = _fewest(sigma, tolerance) if d_state is None else whole_number("d_state", d_state, 1)
    if r > size:
        raise InvalidInputError(f"d_state must lie in 1..{size}, got {d_state}.")
    reduced = [balanced_truncation(system, r) for system in given]
    smaller = with_systems(layer, [each.system for each in reduced], r)
    there = systems(smaller)
    error = max(measured_error(a, b) for a, b in zip(given, there, strict=True))
    return Compressed(
        layer=smaller,
        method="balanced truncation",
        before=size,
        after=r,
        exact=r == size,
        sigma=sigma,
        bound=max(each.bound for each in reduced),
        error=error,
        output_error=_difference(layer, smaller, x),
    )


def _fewest(sigma: Tensor, tolerance: float) -> int:
    """Fewest modes with which the bound of every channel is small enough."""
    if not tolerance >= 0:
        raise InvalidInputError(f"tolerance must not be negative, got {tolerance}.")
    largest = float(sigma.max())
    sigma = torch.where(sigma > sigma.shape[1] * torch.finfo(sigma.dtype).eps * sigma[:, :1], sigma, 0.0)
    fits = (r for r in range(1, sigma.shape[1] + 1) if max(error_bound(row, r) for row in sigma) <= tolerance * largest)
    return next(fits)


def _merged(layer: DictionaryLayer, tolerance: float, x: Tensor | None) -> Compressed:
    smaller = merged(layer, tolerance=tolerance, x=x)
    return Compressed(
        layer=smaller,
        method="states merged",
        before=layer.d_state,
        after=smaller.d_state,
        exact=tolerance == 0,
        sigma=None,
        bound=None,
        error=None,
        output_error=_difference(layer, smaller, x),
    )


@torch.no_grad()
def _difference(layer: Layer, smaller: Layer, x: Tensor | None) -> float | None:
    if x is None:
        return None
    x = x.detach().double()
    return float((in_float64(layer)(x)[0] - in_float64(smaller)(x)[0]).abs().max())


__all__ = ["Compressed", "System", "compress"]
