"""Hybrid stacks: patterns of layer names such as ``"aussm|mamba"``, repeated from the input up.

The options of a pattern of several layers carry the layer's name, as in ``"mamba.d_state"``; those of a single layer do not.
"""

from __future__ import annotations

import inspect
from typing import Any

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers.base import Layer, layer_options, layers, make_layer


def names_of(pattern: str) -> tuple[str, ...]:
    """The layers of a pattern in their order, such as ``("aussm", "mamba")``.

    Raises:
        UnknownNameError: no layer has one of the names.
    """
    names = tuple(name.strip() for name in pattern.split("|"))
    for name in names:
        layers.get(name)
    return names


def pattern_options(pattern: str) -> dict[str, inspect.Parameter]:
    """The options of a pattern by name.

    Example:
        >>> sorted(pattern_options("rnn|lstm|rnn"))
        ['lstm.d_state', 'rnn.d_state']
    """
    names = dict.fromkeys(names_of(pattern))
    if len(names) == 1:
        return layer_options(next(iter(names)))
    return {f"{name}.{key}": parameter for name in names for key, parameter in layer_options(name).items()}


def make_stack(pattern: str, n_layers: int, d_model: int, **options: Any) -> list[Layer]:
    """Layers in the order of a pattern, which is repeated as often as needed.

    Args:
        pattern: a layer's name, or several joined by ``|``.
        n_layers: number of layers.
        d_model: their width.
        options: see ``pattern_options``.

    Raises:
        UnknownNameError: no such layer or option.
        InvalidInputError: fewer layers than the pattern names, or an option's value that does not fit.
    """
    names = names_of(pattern)
    if n_layers < len(names):
        raise InvalidInputError(f"{pattern} names {len(names)} layers, but the stack has {n_layers}.")
    if len(set(names)) == 1:
        return [make_layer(names[0], d_model, **options) for _ in range(n_layers)]
    known = pattern_options(pattern)
    for key in options:
        if key not in known:
            raise UnknownNameError(f"option of {pattern}", key, known)
    stack = []
    for i in range(n_layers):
        name = names[i % len(names)]
        own = {key.removeprefix(f"{name}."): value for key, value in options.items() if key.startswith(f"{name}.")}
        stack.append(make_layer(name, d_model, **own))
    return stack
