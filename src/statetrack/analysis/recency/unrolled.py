"""One run of a layer as the linear recurrence that it is, read off the layer's public interface alone.

    h_t = A_t h_{t-1} + w_t ;   y_t = g_t(h_{t-1}, x_t)

Letters: B = rows, L = tokens, E = ``d_model``, H = heads, N = state size, V = columns of a matrix state (1 for vector states);
A = ``transitions``, w = what token t writes, g = one step of the layer. Nothing is asked of a layer but ``step``, ``transitions``
and a state in one of whose fields, or in all of them joined, the heads' states lie. Layers that are not linear in their state
hand out Jacobians; for them w is what the linearisation along the run leaves over.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.layers.repetition import every_token_alone
from statetrack.structures import Structure


@dataclass(frozen=True)
class StateView:
    """Where in a layer's state the vectors lie that its transitions act on.

    Attributes:
        n_heads: H.
        size: N.
        field: index of the field ``(R, H, N)`` or ``(R, H, N, V)``; None where all numeric fields joined are ``(R, H N)``.
    """

    n_heads: int
    size: int
    field: int | None

    @classmethod
    def of(cls, layer: Layer, state: Any, transitions: Structure) -> StateView:
        """The view for a layer's state. Raises ``InvalidInputError`` if the transitions act on no part of it."""
        n_heads, size = transitions.batch_shape[2], transitions.state_size
        for i, f in enumerate(state):
            if f.ndim in (3, 4) and f.shape[1:3] == (n_heads, size) and _numeric(f):
                return cls(n_heads, size, i)
        if sum(f[0].numel() for f in state if _numeric(f)) == n_heads * size:
            return cls(n_heads, size, None)
        shapes = {name: tuple(f.shape) for name, f in zip(state._fields, state, strict=True)}
        raise InvalidInputError(
            f"{type(layer).__name__} has transitions for {n_heads} heads of size {size}, which its state {shapes} does not hold."
        )

    def read(self, state: Any) -> Tensor:
        """``(R, H, N, V)``."""
        if self.field is None:
            joined = torch.cat([f.flatten(1) for f in state if _numeric(f)], dim=1)
            return joined.unflatten(1, (self.n_heads, self.size)).unsqueeze(-1)
        h: Tensor = state[self.field]
        return h if h.ndim == 4 else h.unsqueeze(-1)

    def replace(self, state: Any, h: Tensor) -> Any:
        """The state with other vectors ``(R, H, N, V)``."""
        if self.field is not None:
            fields = list(state)
            fields[self.field] = h if fields[self.field].ndim == 4 else h.squeeze(-1)
            return type(state)(*fields)
        parts = iter(h.flatten(1).split([f[0].numel() for f in state if _numeric(f)], dim=1))
        return type(state)(*(next(parts).view_as(f) if _numeric(f) else f for f in state))


@dataclass(frozen=True)
class Unrolled:
    """A run, token by token, in float64.

    Attributes:
        layer: a frozen float64 copy of the layer.
        x: ``(B, L, E)``.
        before: the layer's state before each token; fields ``(B, L, ...)``.
        view: where its vectors lie.
        transitions: batch dimensions ``(B, L, H)``, without gradients.
        h: ``(B, L + 1, H, N, V)``, the vectors before the first token and after each.
        outputs: ``(B, L, E)``.
    """

    layer: Layer
    x: Tensor
    before: Any
    view: StateView
    transitions: Structure
    h: Tensor
    outputs: Tensor

    @property
    def writes(self) -> Tensor:
        """``w_t = h_t - A_t h_{t-1}``, ``(B, L, H, N, V)``."""
        return self.h[:, 1:] - applied(self.transitions, self.h[:, :-1])

    def one_step(self, tokens: slice, h: Tensor) -> tuple[Tensor, Any]:
        """Outputs ``(B T, E)`` and states after one token from ``h (B T, H, N, V)`` in place of those before it."""
        rows = type(self.before)(*(f[:, tokens].flatten(0, 1) for f in self.before))
        with every_token_alone():
            return self.layer.step(self.x[:, tokens].flatten(0, 1), self.view.replace(rows, h))


def has_states(layer: Layer) -> bool:
    """Whether a layer carries a state of constant size from token to token, which is what ``unroll`` needs."""
    return layer.traits.streams


def unroll(layer: Layer, x: Tensor, state: Any = None) -> Unrolled:
    """Run a layer token by token in float64.

    Args:
        layer: any layer with a state of constant size; it is left as it is.
        x: ``(B, L, d_model)``.
        state: state to start from; None means ``initial_state``.

    Raises:
        InvalidInputError: a cache that grows with every token, an ``x`` that does not fit, or a state that its transitions do not
            act on.
    """
    if not has_states(layer):
        raise InvalidInputError(f"{type(layer).__name__} has no recurrence to unroll: its cache grows with every token.")
    layer = in_float64(layer)
    x = checked_input(layer, x)
    with torch.no_grad():
        state = layer.initial_state(len(x)) if state is None else _as_float64(state)
        transitions = detached(layer.transitions(x, state))
        view = StateView.of(layer, state, transitions)
        before, after, outputs = [], [], []
        for t in range(x.shape[1]):
            before.append(state)
            y, state = layer.step(x[:, t], state)
            after.append(view.read(state))
            outputs.append(y)
        stacked = type(state)(*(torch.stack(fields, dim=1) for fields in zip(*before, strict=True)))
        h = torch.stack([view.read(before[0]).to(after[0].dtype), *after], dim=1)
        return Unrolled(layer, x, stacked, view, in_field_of(transitions, h), h, torch.stack(outputs, dim=1))


def applied(transitions: Structure, h: Tensor) -> Tensor:
    """``A h`` for vectors ``(..., H, N, V)`` with the batch dimensions of the transitions in front of N."""
    moved = transitions.apply(h.movedim(-1, 0))
    return moved.movedim(0, -1)


def detached(transitions: Structure) -> Structure:
    """The same matrices without gradients."""
    return transitions.map_batch(lambda tensor, _: tensor.detach())


def in_field_of(transitions: Structure, h: Tensor) -> Structure:
    """The same matrices with complex entries where states are complex."""
    if transitions.dtype.is_complex or not h.is_complex():
        return transitions
    return transitions.map_batch(lambda tensor, _: tensor.to(h.dtype) if tensor.is_floating_point() else tensor)


def in_float64(layer: Layer) -> Layer:
    """A copy in float64 and in evaluation mode whose parameters take no gradients."""
    return copy.deepcopy(layer).double().eval().requires_grad_(False)


def checked_input(layer: Layer, x: Tensor) -> Tensor:
    """``x`` in float64. Raises ``InvalidInputError`` unless it is finite and ``(B, L, d_model)`` with at least one token."""
    if not isinstance(x, Tensor):
        raise InvalidInputError(f"x needs to be a tensor (B, L, {layer.d_model}), got a {type(x).__name__}.")
    if x.ndim != 3 or x.shape[-1] != layer.d_model or 0 in x.shape:
        raise InvalidInputError(
            f"{type(layer).__name__} needs x of shape (B, L, {layer.d_model}) with B and L of at least 1, got {tuple(x.shape)}."
        )
    if not torch.isfinite(x).all():
        raise InvalidInputError("x holds values that are not finite.")
    return x.detach().double()


def _as_float64(state: Any) -> Any:
    widened = {torch.float16, torch.bfloat16, torch.float32}
    wide = {torch.complex64: torch.complex128, **dict.fromkeys(widened, torch.float64)}
    return type(state)(*(f.detach().to(wide.get(f.dtype, f.dtype)) for f in state))


def _numeric(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
