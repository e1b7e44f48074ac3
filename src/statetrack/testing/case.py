"""One layer under test: how it is built, fed and differentiated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from statetrack.layers.base import Layer
from statetrack.testing.compare import pairing

LENGTH = 6


def is_numeric(tensor: Tensor) -> bool:
    """Whether a tensor can carry gradients."""
    return tensor.is_floating_point() or tensor.is_complex()


@dataclass(frozen=True)
class Case:
    """A layer class with options.

    Attributes:
        layer_class: the layer.
        d_model: width.
        options: constructor options.
        surrogate: beginnings of the names of parameters whose gradient stands in for that of a hard choice (straight through).
    """

    layer_class: type[Layer]
    d_model: int = 6
    options: dict[str, Any] = field(default_factory=dict)
    surrogate: tuple[str, ...] = ()

    def build(self, d_model: int | None = None, *, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> Layer:
        """A layer whose parameters are moved off their initial values, so that no gradient is zero by design of the start."""
        width = self.d_model if d_model is None else d_model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = self.layer_class(width, **{**self.options, **changes}).to(dtype)  # type: ignore[call-arg]
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
        return layer

    def is_surrogate(self, name: str) -> bool:
        """Whether a parameter or child feeds a hard choice."""
        return any(name.startswith(beginning) for beginning in self.surrogate)

    def inputs(self, *shape: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
        """Normal numbers; without a shape ``(2, LENGTH, d_model)``."""
        shape = shape or (2, LENGTH, self.d_model)
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)

    def state(self, layer: Layer, rows: int, dtype: torch.dtype = torch.float64) -> Any:
        """A reachable state that is not the initial one, as leaves that require gradients."""
        with torch.no_grad():
            _, state = layer(self.inputs(rows, 2, layer.d_model, dtype=dtype, seed=2))
        return leaves(state)


def leaves(state: Any) -> Any:
    """A copy of a state that starts a graph of its own."""
    return type(state)(*(f.detach().clone().requires_grad_(is_numeric(f)) for f in state))


def rows_of(state: Any, rows: slice) -> Any:
    """Some rows of a batch of states."""
    return type(state)(*(f[rows] for f in state))


def cotangents_like(outputs: list[Tensor], seed: int = 3) -> list[Tensor]:
    """Random cotangents for outputs and final state."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(o.shape, generator=generator, dtype=o.dtype) if is_numeric(o) else o for o in outputs]


def gradients(layer: Layer, outputs: list[Tensor], cotangents: list[Tensor], *sources: Any) -> dict[str, Tensor]:
    """Gradients of ``pairing`` by parameter name, and of every numeric tensor in ``sources`` (tensors or states)."""
    named: dict[str, Tensor] = dict(layer.named_parameters())
    for i, source in enumerate(sources):
        tensors = [source] if isinstance(source, Tensor) else list(source)
        named |= {f"source {i}.{j}": t for j, t in enumerate(tensors) if is_numeric(t)}
    total = pairing(outputs, cotangents)
    if not total.requires_grad:
        return {name: torch.zeros_like(t) for name, t in named.items()}
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(named, found, strict=True))


def option_variants(layer_class: type[Layer]) -> Iterator[dict[str, Any]]:
    """The default options, then every other value of each option that is a choice or a switch, one at a time."""
    yield {}
    for name, parameter in inspect.signature(layer_class.__init__).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield from ({name: value} for value in choices_of(layer_class, name) if value != parameter.default)


def choices_of(layer_class: type[Layer], option: str) -> tuple[Any, ...]:
    """All values of an option that is a choice (``Literal``) or a switch; nothing for other options."""
    hint = get_type_hints(layer_class.__init__)[option]
    if get_origin(hint) is Literal:
        return get_args(hint)
    return (False, True) if hint is bool else ()
