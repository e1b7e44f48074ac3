"""What a construction returns: a tagger that knows its configuration and its automaton, and noise around its weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError
from statetrack.layers import layer_options
from statetrack.models import ModelConfig, Tagger

SILU_ONE = 1.2784645427610738
"""``silu`` of it is 1."""


class ExactTagger(Tagger):
    """A tagger whose weights were computed, not trained; ``Tagger(layer, vocab_size, n_classes, config)`` loads its state dict.

    Attributes:
        automaton: what it tracks: minimal, with the behaviour that was asked for.
        layer_name: registered name of its layers.
        config: the stack.
    """

    def __init__(self, layer: str, automaton: Automaton, config: ModelConfig) -> None:
        super().__init__(layer, automaton.n_symbols, automaton.n_outputs, config)
        self.layer_name, self.config, self.automaton = layer, config, automaton
        blank(self.embedding, self.head)

    @property
    def first(self) -> Any:
        """The first layer; of no declared type, since layers differ in their parameters."""
        return self.layers[0]

    def fresh(self) -> Tagger:
        """An untrained tagger of the same shape."""
        return Tagger(self.layer_name, self.vocab_size, self.n_classes, self.config)


def near_exact(model: Tagger, scale: float, generator: torch.Generator | None = None) -> Tagger:
    """A copy with Gaussian noise on every parameter: a start for training that lies near exact weights.

    The noise of a parameter tensor has standard deviation ``scale`` times the root mean square of its non-zero entries, so that
    zeros next to them move too; a tensor of zeros stays as it is.

    Args:
        model: exact weights, or any others.
        scale: 0 for an exact copy.
        generator: the only source of randomness; None means one seeded with 0.

    Raises:
        InvalidInputError: a scale that is negative or not finite.
    """
    if not (math.isfinite(scale) and scale >= 0):
        raise InvalidInputError(f"scale must be finite and at least 0; got {scale}.")
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32).to(parameter)
            entries = parameter[parameter != 0]
            size = entries.square().mean().sqrt() if entries.numel() else 0.0
            parameter.add_(noise * size * scale)
    return moved


def blank(*modules: nn.Module) -> None:
    """Set all parameters of modules to zero."""
    with torch.no_grad():
        for module in modules:
            for parameter in module.parameters():
                parameter.zero_()


def put(parameter: Tensor | None, values: Any) -> None:
    """Overwrite a parameter with an array or a number."""
    assert parameter is not None
    with torch.no_grad():
        parameter.copy_(torch.as_tensor(values).expand_as(parameter))


def with_options(layer: str, fixed: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a layer: those that a construction fixes, and others as asked.

    Raises:
        InvalidInputError: an option that the construction fixes to another value, or that the layer does not have.
    """
    known = layer_options(layer)
    for key, value in options.items():
        if key in fixed and fixed[key] != value:
            raise InvalidInputError(f"The construction needs {key}={fixed[key]!r}; got {value!r}.")
        if key not in known:
            raise InvalidInputError(f"{layer} has no option {key!r}; it has {', '.join(known)}.")
        if key not in fixed and key not in FREE:
            raise InvalidInputError(f"The construction works with the default of {key}; only {', '.join(FREE)} can be set.")
    return {**fixed, **options}


FREE = ("backend", "chunk_size")
"""Options that change no value."""
