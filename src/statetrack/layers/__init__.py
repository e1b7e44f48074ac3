"""Sequence layers behind one interface; ``layers.names()`` lists them, ``make_layer`` builds one."""

from statetrack.layers.base import Layer, Traits, layer_options, layers, make_layer, register

__all__ = ["Layer", "Traits", "layer_options", "layers", "make_layer", "register"]
