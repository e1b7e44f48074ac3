"""The spectrum of a layer on an input: eigenvalues of every transition, and of their product along the word.

Letters: B = rows, L = tokens, H = heads, N = state size. Layers that are not linear in their state hand out Jacobians along the
run, whose eigenvalues these are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import checked_input, detached, in_float64
from statetrack.analysis.spectra.products import product_spectrum
from statetrack.analysis.spectra.values import Shares, Spectrum
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.structures import Structure

__all__ = ["Shares", "Spectrum", "spectrum", "transition_spectrum", "word_spectrum"]


def spectrum(layer: Layer, x: Tensor) -> Spectrum:
    """Eigenvalues ``(B, L, H, N)`` of every transition, in float64.

    Exact for diagonal and for one-hot (PD) transitions. What a word does is the business of ``word_spectrum``: eigenvalues
    of matrices that do not commute say nothing about those of their product.

    Args:
        layer: any layer with transitions.
        x: ``(B, L, d_model)``.

    Raises:
        InvalidInputError: an ``x`` that does not fit, or a layer without transitions.

    Example:
        >>> from statetrack.layers import make_layer
        >>> found = spectrum(make_layer("aussm", 4, d_state=3), torch.randn(1, 5, 4))
        >>> found.eigenvalues.shape, found.shares().unit
        (torch.Size([1, 5, 4, 3]), 1.0)
    """
    return transition_spectrum(_transitions(layer, x))


def transition_spectrum(transitions: Structure) -> Spectrum:
    """Eigenvalues ``(..., N)`` of single transitions."""
    return Spectrum.from_values(detached(transitions).eigenvalues(), length=1, of=type(transitions).__name__)


def word_spectrum(layer: Layer, x: Tensor, *, first: int = 0, last: int | None = None) -> Spectrum:
    """Eigenvalues ``(B, H, N)`` of the product of the transitions of the tokens ``first .. last - 1``, in float64.

    Args:
        layer: any layer with transitions.
        x: ``(B, L, d_model)``; convolutions see the tokens before ``first``.
        first: first token of the product.
        last: token after the last one of the product; None means the end.

    Raises:
        InvalidInputError: an ``x`` or a range of tokens that does not fit, or a layer without transitions.
    """
    transitions = _transitions(layer, x)
    end = x.shape[1] if last is None else last
    if not 0 <= first < end <= x.shape[1]:
        raise InvalidInputError(f"need 0 <= first < last <= L = {x.shape[1]}; got {first} and {end}.")
    return product_spectrum(transitions[:, first:end])


def _transitions(layer: Layer, x: Tensor) -> Structure:
    layer = in_float64(layer)
    x = checked_input(layer, x)
    with torch.no_grad():
        return layer.transitions(x)
