"""Sequence layers behind one interface; ``layers.names()`` lists them, ``make_layer`` builds one."""

from statetrack.layers.base import Claim, Layer, Traits, layer_options, layers, make_layer, register

__all__ = ["Claim", "Layer", "Traits", "layer_options", "layers", "make_layer", "register"]
