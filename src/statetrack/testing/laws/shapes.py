"""Shapes, widths, empty batches and refused arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Traits
from statetrack.testing.case import LENGTH, Case, is_numeric, leaves
from statetrack.testing.compare import assert_equal, assert_finite, assert_states_close
from statetrack.testing.laws.registry import law


@law
def outputs_have_the_inputs_shape(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    y, state = layer(x)
    assert y.shape == x.shape, f"forward of {tuple(x.shape)} gives {tuple(y.shape)}"
    assert {f.shape[0] for f in state} == {len(x)}, f"state fields need the batch first, got {[tuple(f.shape) for f in state]}"
    y_t, _ = layer.step(x[:, 0], state)
    assert y_t.shape == x[:, 0].shape, f"step of {tuple(x[:, 0].shape)} gives {tuple(y_t.shape)}"


@law
def any_width_works(case: Case) -> None:
    for width in (1, 3, 5, 7):
        layer, x = case.build(width), case.inputs(2, 3, width)
        y, _ = layer(x.requires_grad_())
        y.sum().backward()
        assert y.shape == x.shape, f"width {width}: forward of {tuple(x.shape)} gives {tuple(y.shape)}"
        assert_finite(f"width {width}: gradient of the input", [x.grad])  # type: ignore[list-item]


@law
def empty_and_single_batches_work(case: Case) -> None:
    layer = case.build()
    for rows, length in ((0, LENGTH), (0, 0), (1, LENGTH), (1, 1)):
        x = case.inputs(rows, length, case.d_model)
        y, state = layer(x)
        assert y.shape == x.shape, f"batch {rows}, length {length}: output has shape {tuple(y.shape)}"
        assert all(len(f) == rows for f in state), f"batch {rows}, length {length}: state has {[len(f) for f in state]} rows"


@law
def nothing_read_leaves_the_state(case: Case) -> None:
    layer = case.build()
    start = leaves(case.state(layer, 2))
    y, state = layer(case.inputs(2, 0, case.d_model), start)
    assert y.shape == (2, 0, case.d_model), f"length 0: output has shape {tuple(y.shape)}"
    assert_states_close("length 0", state, start, 0.0)
    numeric = [(f, s) for f, s in zip(state, start, strict=True) if is_numeric(f)]
    grads = torch.autograd.grad([f for f, _ in numeric], [s for _, s in numeric], [torch.ones_like(f) for f, _ in numeric])
    for grad in grads:
        assert_equal("length 0: gradient of the final state by the initial one", grad, torch.ones_like(grad))


@law
def wrong_arguments_are_refused(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    mask = torch.ones(x.shape[:2], dtype=torch.bool)
    packed, end = x[:1], x.shape[1]
    state = layer.initial_state(len(x))
    wrong_states = {
        "state of too many rows": layer.initial_state(len(x) + 1),
        "state of one row": layer.initial_state(1),
        "state in float32": type(state)(*(_narrowed(field) for field in state)),
        "state with a dimension more": type(state)(*(field.unsqueeze(-1) for field in state)),
        "state without names": tuple(state),
        "state that is one tensor": state[0],
    }
    calls: dict[str, Callable[[], Any]] = {
        "two dimensions": lambda: layer(x[0]),
        "another width": lambda: layer(x[..., 1:]),
        "mask of another shape": lambda: layer(x, mask=mask[:, 1:]),
        "mask of another dtype": lambda: layer(x, mask=mask.long()),
        "mask with offsets": lambda: layer(packed, mask=mask[:1], cu_seqlens=torch.tensor([0, end])),
        "packed batch of two": lambda: layer(x, cu_seqlens=torch.tensor([0, end])),
        "offsets that stop early": lambda: layer(packed, cu_seqlens=torch.tensor([0, end - 1])),
        "offsets that fall": lambda: layer(packed, cu_seqlens=torch.tensor([0, 3, 2, end])),
        "offsets of floats": lambda: layer(packed, cu_seqlens=torch.tensor([0.0, end])),
        "x in float32": lambda: layer(x.float()),
        "x in half precision": lambda: layer(x.bfloat16()),
        "x of integers": lambda: layer(x.long()),
        "x that is no tensor": lambda: layer(x.tolist()),
        "packed state of a row too few": lambda: layer(packed, state, cu_seqlens=torch.tensor([0, 1, 2, end])),
        "masked state of a row too few": lambda: layer(x, layer.initial_state(1), mask=mask),
        "step of whole sequences": lambda: layer.step(x, state),
        "step of another width": lambda: layer.step(x[:, 0, 1:], state),
        "step in float32": lambda: layer.step(x[:, 0].float(), state),
        **{label: partial(layer, x, wrong) for label, wrong in wrong_states.items()},
        **{f"step, {label}": partial(layer.step, x[:, 0], wrong) for label, wrong in wrong_states.items()},
        **{f"progress of {wrong}": partial(layer.set_progress, wrong) for wrong in (-0.1, 1.1, math.nan)},
        "width 0": lambda: case.build(0),
    }
    for label, call in calls.items():
        try:
            call()
        except InvalidInputError:
            continue
        except Exception as error:
            raise AssertionError(f"{label}: {type(error).__name__} instead of InvalidInputError") from error
        raise AssertionError(f"{label}: accepted in silence")


def _narrowed(field: torch.Tensor) -> torch.Tensor:
    return field.to(torch.complex64 if field.is_complex() else torch.float32)


@law
def traits_are_stated(case: Case) -> None:
    traits = case.layer_class.traits
    assert isinstance(traits, Traits), f"traits is a {type(traits).__name__}"
    empty = [name for name, value in vars(traits).items() if isinstance(value, str) and not value.strip()]
    assert not empty, f"traits left empty: {', '.join(empty)}"
