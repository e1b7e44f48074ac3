"""Polarization of a selective diagonal layer: of every head one state that keeps everything and one that keeps nothing.

    a_t = [1; learned; 0] ;   everything else as in the layer

A state at 1 is a running sum of what is written, without bound on long inputs; a state at 0 passes the last write on. The rest
has to choose between the two. Where all states of a head share one decay (Mamba-2), whole heads are pinned. Source:
Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and Over-smoothing (arXiv 2501.00658).
"""

from __future__ import annotations

import copy
from typing import TypeVar

import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer
from statetrack.layers.pins import Pins
from statetrack.structures import Diagonal

AnyLayer = TypeVar("AnyLayer", bound=Layer)


def polarize(layer: AnyLayer, *, n_ones: int = 1, n_zeros: int = 1) -> AnyLayer:
    """A copy of a selective diagonal layer with pinned eigenvalues.

    The first ``n_ones`` states of every head are held at 1 and the last ``n_zeros`` at 0; of Mamba-2, whose heads have one decay
    each, the first and last heads. Sizes stay as they are: to keep N learned states, build the layer with ``d_state = N + n_ones
    + n_zeros``. Parameters of pinned entries stay in the layer and receive no gradient from its decay.

    Args:
        layer: a layer whose class sets ``pinnable``; it is left as it is.
        n_ones: states held at 1; 0 for none.
        n_zeros: states held at 0; 0 for none.

    Raises:
        InvalidInputError: a layer that cannot be pinned, with the reason, or more pins than there are states to spare.

    Example:
        >>> from statetrack.layers import make_layer
        >>> layer = polarize(make_layer("negative-mamba", 4, d_state=4))
        >>> layer.transitions(torch.randn(1, 2, 4)).value[0, 0, 0, [0, -1]].tolist()
        [1.0, 0.0]
    """
    name = type(layer).__name__
    if min(n_ones, n_zeros) < 0 or n_ones + n_zeros == 0:
        raise InvalidInputError(f"n_ones and n_zeros must not be negative, and one of them positive; got {n_ones} and {n_zeros}.")
    if layer.pins != Pins():
        raise InvalidInputError(f"This {name} has pinned eigenvalues already: {layer.pins.ones} at 1, {layer.pins.zeros} at 0.")
    if not layer.pinnable:
        raise InvalidInputError(f"{name} has no eigenvalues that could be pinned: {_reason(layer)}.")
    if getattr(layer, "input", True) is None:
        raise InvalidInputError(f"This {name} has additive_input=False: nothing would ever reach a pinned state.")
    pinned = copy.deepcopy(layer)
    pinned.pins = Pins(n_ones, n_zeros)
    _check(pinned, name)
    return pinned


def _reason(layer: Layer) -> str:
    traits = layer.traits
    if not traits.linear:
        return "it is not linear in its state"
    if not traits.streams:
        return "it has no recurrence of fixed size"
    if traits.input_dependent == "nothing":
        return f"its transitions are fixed ({traits.structure}), and pins are for selective layers"
    if traits.structure != "diagonal":
        return f"its transitions are not diagonal ({traits.structure})"
    return "its class does not set pinnable, and may have pinned ones of its own"


def _check(layer: Layer, name: str) -> None:
    """That the pins are there, and leave something to learn."""
    probe = next(layer.parameters())
    with torch.no_grad():
        found = layer.transitions(probe.new_zeros(1, 1, layer.d_model))
    if not isinstance(found, Diagonal):
        raise InvalidInputError(f"{name} has no eigenvalues that could be pinned: its transitions are {type(found).__name__}.")
    heads = layer.pins_heads
    value = found.value[0, 0, :, 0] if heads else found.value[0, 0]
    pins, n = layer.pins, value.shape[-1]
    if pins.ones + pins.zeros >= n:
        what = "heads" if heads else "states per head"
        raise InvalidInputError(f"{pins.ones} and {pins.zeros} pinned of {n} {what} leave none to learn.")
    if not bool((value[..., : pins.ones] == 1).all()) or bool(value[..., n - pins.zeros :].any()):
        raise InvalidInputError(f"{name} sets pinnable but does not apply self.pins to its transitions.")
