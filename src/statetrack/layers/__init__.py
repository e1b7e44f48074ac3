"""Sequence layers behind one interface; ``layers.names()`` lists them, ``make_layer`` builds one, ``make_stack`` several."""

from statetrack.layers.base import Claim, Layer, Traits, layer_options, layers, make_layer, register
from statetrack.layers.hybrid import make_stack, names_of, pattern_options
from statetrack.layers.polarization import polarize

__all__ = [
    "Claim",
    "Layer",
    "Traits",
    "layer_options",
    "layers",
    "make_layer",
    "make_stack",
    "names_of",
    "pattern_options",
    "polarize",
    "register",
]
