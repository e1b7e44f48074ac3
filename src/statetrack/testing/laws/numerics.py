"""Precision, gradients, memory layout and repeatability."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrack.layers.base import Layer
from statetrack.testing.case import LENGTH, Case, cotangents_like, gradients, is_numeric, leaves
from statetrack.testing.compare import assert_close, assert_equal, assert_finite, assert_states_close, pairing
from statetrack.testing.laws.registry import law

_EPSILON = 1e-6


@law
def float64_stays_float64(case: Case) -> None:
    y, state = case.build()(case.inputs())
    assert y.dtype == torch.float64, f"output is {y.dtype}"
    for name, f in zip(state._fields, state, strict=True):
        assert not is_numeric(f) or f.dtype in (torch.float64, torch.complex128), f"state.{name} is {f.dtype}"


@law
def gradients_are_derivatives(case: Case) -> None:
    """Central differences along a random direction of every tensor, except those that feed a hard choice."""
    layer, x = case.build(), case.inputs(2, 4, case.d_model)
    start = case.state(layer, len(x))
    tensors: dict[str, Tensor] = {n: p for n, p in layer.named_parameters() if not case.is_surrogate(n)}
    tensors |= {f"state.{n}": f for n, f in zip(start._fields, start, strict=True) if is_numeric(f)}
    if not case.surrogate:
        tensors["x"] = x.requires_grad_()
    y, state = layer(x, start)
    cotangents = cotangents_like([y, *state])
    found = torch.autograd.grad(
        pairing([y, *state], cotangents), list(tensors.values()), allow_unused=True, materialize_grads=True
    )
    for seed, ((name, tensor), grad) in enumerate(zip(tensors.items(), found, strict=True)):
        direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=tensor.dtype)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                tensor += sign * _EPSILON * direction
                y, state = layer(x, start)
                values.append(pairing([y, *state], cotangents))
                tensor -= sign * _EPSILON * direction
        numeric = (values[0] - values[1]) / (2 * _EPSILON)
        analytic = (grad.conj() * direction).real.sum().to(torch.float64)
        assert_close(f"derivative by {name}", analytic, numeric, 1e-6)


@law
def every_parameter_gets_a_gradient(case: Case) -> None:
    layer = case.build()
    y, state = layer(case.inputs())
    found = gradients(layer, [y, *state], cotangents_like([y, *state]))
    dead = [name for name, grad in found.items() if not grad.any()]
    assert not dead, f"parameters without gradient: {', '.join(dead)}"


@law
def silence_is_finite(case: Case) -> None:
    layer, x = case.build(), torch.zeros(2, LENGTH, case.d_model, dtype=torch.float64, requires_grad=True)
    y, state = layer(x)
    found = gradients(layer, [y, *state], cotangents_like([y, *state]), x)
    assert_finite("outputs for zeros", [y, *state])
    assert_finite("gradients for zeros", found.values())


@law
def half_precision_keeps_states_in_float32(case: Case) -> None:
    x = case.inputs(dtype=torch.float32).requires_grad_()
    layer = case.build(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x)
        layer(x.detach().bfloat16(), state)
    _check_half("autocast", layer, x, y, state)
    layer, x = layer.bfloat16(), x.detach().bfloat16().requires_grad_()
    y, state = layer(x)
    assert y.dtype == torch.bfloat16, f"a bfloat16 layer gives {y.dtype}"
    _check_half("bfloat16", layer, x, y, state)
    _check_half("bfloat16, continued", layer, x, *layer(x, leaves(state)))


def _check_half(label: str, layer: Layer, x: Tensor, y: Tensor, state: Any) -> None:
    for name, f in zip(state._fields, state, strict=True):
        assert f.dtype not in (torch.bfloat16, torch.float16, torch.complex32), f"{label}: state.{name} is {f.dtype}"
    y.float().sum().backward()
    assert_finite(f"{label}: outputs", [y, *state])
    assert x.grad is not None, f"{label}: no gradient reaches the input"
    assert_finite(f"{label}: gradients", [x.grad, *(p.grad for p in layer.parameters() if p.grad is not None)])


@law
def memory_layout_does_not_matter(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    wide = torch.randn(*x.shape[:2], 2 * case.d_model + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    wide[..., 1::2] = x
    start = case.state(layer, len(x))
    layouts = {
        "transposed": x.transpose(0, 1).contiguous().transpose(0, 1),
        "width first": x.mT.contiguous().mT,
        "strided": wide[..., 1::2],
    }
    expected, expected_state = layer(x, start)
    scattered = type(start)(*(f.detach().movedim(0, -1).contiguous().movedim(-1, 0) for f in start))
    for label, view in layouts.items():
        for begin in (start, scattered):
            y, state = layer(view, begin)
            assert_close(f"{label} input", y, expected)
            assert_states_close(f"{label} input", state, expected_state)
    one = x[:1].expand(3, -1, -1)
    assert_close("expanded input", layer(one)[0], layer(one.contiguous())[0])
    packed = torch.tensor([[0, 9], [2, 9], [LENGTH, 9]], dtype=torch.int32)[:, 0]
    y, _ = layer(wide[:1, :, 1::2], cu_seqlens=packed)
    assert_close("strided offsets", y, layer(x[:1], cu_seqlens=packed.long().contiguous())[0])


@law
def arguments_are_left_alone(case: Case) -> None:
    layer, x = case.build(), case.inputs().requires_grad_()
    start = case.state(layer, len(x))
    watched = {"x": x, **{f"state.{n}": f for n, f in zip(start._fields, start, strict=True)}, **dict(layer.named_parameters())}
    copies = {name: tensor.detach().clone() for name, tensor in watched.items()}
    random = torch.get_rng_state()
    y, state = layer(x, start)
    pairing([y, *state], cotangents_like([y, *state])).backward()
    layer.step(x[:, 0], start)
    for name, tensor in watched.items():
        assert_equal(f"{name} after a run", tensor.detach(), copies[name])
    assert_equal("the global random state", torch.get_rng_state(), random)


@law
def runs_repeat_bit_for_bit(case: Case) -> None:
    layer, x = case.build(dtype=torch.float32), case.inputs(dtype=torch.float32).requires_grad_()
    runs = []
    for _ in range(2):
        y, state = layer(x)
        runs.append({"y": y, **state._asdict(), **gradients(layer, [y, *state], cotangents_like([y, *state]), x)})
    for name, first in runs[0].items():
        assert_equal(f"second run: {name}", runs[1][name], first)
