"""Causality, the transition matrices that a layer states, and its backends."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from statetrack.errors import BackendError
from statetrack.structures import Structure
from statetrack.testing.case import LENGTH, Case, choices_of, cotangents_like, gradients, is_numeric
from statetrack.testing.compare import assert_close, assert_equal, assert_states_close
from statetrack.testing.laws.registry import law


@law
def later_tokens_do_not_matter(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    with torch.no_grad():
        expected, _ = layer(x)
        for t in range(LENGTH):
            changed = x.clone()
            changed[:, t:] += 1.0
            y, _ = layer(changed)
            assert_equal(f"outputs before token {t} after it changed", y[:, :t], expected[:, :t])
            assert not torch.equal(y[:, t], expected[:, t]), f"token {t} has no influence on its own output"


@law
def transitions_carry_the_state(case: Case) -> None:
    """``d h_L / d h_0`` by automatic differentiation is the product ``A_L ... A_1`` of the transitions as dense matrices."""
    layer, x = case.build(), case.inputs(2, 5, case.d_model)
    start = case.state(layer, len(x))
    stated = layer.transitions(x, start)
    assert isinstance(stated, Structure), f"transitions are a {type(stated).__name__}"
    rows, length, n_heads = stated.batch_shape
    assert (rows, length) == x.shape[:2], f"transitions have batch dimensions {tuple(stated.batch_shape)}, need (B, L, H)"
    dense = stated.to_dense().detach()
    size = dense.shape[-1]
    product = torch.eye(size, dtype=dense.dtype).expand(rows, n_heads, size, size)
    for t in range(length):
        product = dense[:, t] @ product
    _, final = layer(x, start)
    sources = [f for f in start if is_numeric(f)]
    cotangent = _recurrent(final, n_heads, size, lambda f: cotangents_like([f])[0])
    grads = iter(
        torch.autograd.grad(
            _pair(_recurrent(final, n_heads, size), cotangent), sources, allow_unused=True, materialize_grads=True
        )
    )
    by_field = type(start)(*(next(grads) if is_numeric(f) else f for f in start))
    found, expected = _recurrent(by_field, n_heads, size), product.mH.to(cotangent.dtype) @ cotangent
    assert_close("product of transitions against the derivative of the final state", found, expected)


def _recurrent(state: Any, n_heads: int, size: int, change: Any = lambda f: f) -> Tensor:
    """The part of a state that transitions act on, ``(B, H, N, V)``: the field of that shape, or all fields joined."""
    for f in state:
        if f.ndim in (3, 4) and f.shape[1:3] == (n_heads, size):
            return change(f) if f.ndim == 4 else change(f).unsqueeze(-1)
    joined = torch.cat([change(f).flatten(1) for f in state if is_numeric(f)], dim=1)
    assert joined.shape[1] == n_heads * size, (
        f"no field of the state, nor all of them joined, holds H = {n_heads} vectors of size {size}: "
        f"{ {n: tuple(f.shape) for n, f in zip(state._fields, state, strict=True)} }"
    )
    return joined.unflatten(1, (n_heads, size)).unsqueeze(-1)


def _pair(output: Tensor, cotangent: Tensor) -> Tensor:
    return (cotangent.conj() * output).real.sum()


@law
def backends_agree(case: Case) -> None:
    if "backend" not in inspect.signature(case.layer_class.__init__).parameters:
        return
    x = case.inputs().requires_grad_()
    results = {}
    for backend in choices_of(case.layer_class, "backend"):
        layer = case.build(backend=backend)
        try:
            start = case.state(layer, len(x))
            y, state = layer(x, start)
        except BackendError:
            continue
        results[backend] = y, state, gradients(layer, [y, *state], cotangents_like([y, *state]), x, start)
    assert len(results) > 1, f"backends that ran: {', '.join(results)}"
    expected, expected_state, expected_gradients = results["reference"]
    for backend, (y, state, found) in results.items():
        assert_close(f"backend {backend}", y, expected)
        assert_states_close(f"backend {backend}", state, expected_state)
        for name, grad in found.items():
            assert_close(f"backend {backend}: gradient of {name}", grad, expected_gradients[name])
