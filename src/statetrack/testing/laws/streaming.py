"""The state: a sequence may be cut anywhere, stored and continued."""

from __future__ import annotations

import io
from itertools import pairwise

import torch

from statetrack.testing.case import LENGTH, Case, cotangents_like, gradients, is_numeric
from statetrack.testing.compare import assert_close, assert_equal, assert_states_close
from statetrack.testing.laws.registry import law


@law
def absent_state_is_the_initial_one(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    (y, state), (expected, expected_state) = layer(x), layer(x, layer.initial_state(len(x)))
    assert_equal("state=None", y, expected)
    assert_states_close("state=None", state, expected_state, 0.0)


@law
def steps_equal_forward(case: Case) -> None:
    layer, x = case.build(), case.inputs(2, 3 * LENGTH, case.d_model)
    state = case.state(layer, 2)
    expected, expected_state = layer(x, state)
    outputs = []
    for t in range(x.shape[1]):
        y_t, state = layer.step(x[:, t], state)
        outputs.append(y_t)
    assert_close("step by step", torch.stack(outputs, dim=1), expected)
    assert_states_close("step by step", state, expected_state)


@law
def any_split_equals_one_pass(case: Case) -> None:
    layer, x = case.build(), case.inputs().requires_grad_()
    start = case.state(layer, len(x))
    expected, expected_state = layer(x, start)
    cotangents = cotangents_like([expected, *expected_state])
    expected_gradients = gradients(layer, [expected, *expected_state], cotangents, x, start)
    for cuts in [(0, k, LENGTH) for k in range(LENGTH + 1)] + [(0, 2, 2, 5, LENGTH)]:
        parts, state = [], start
        for a, b in pairwise(cuts):
            y, state = layer(x[:, a:b], state)
            parts.append(y)
        joined = torch.cat(parts, dim=1)
        assert_close(f"cut at {cuts}", joined, expected)
        assert_states_close(f"cut at {cuts}", state, expected_state)
        for name, grad in gradients(layer, [joined, *state], cotangents, x, start).items():
            assert_close(f"cut at {cuts}: gradient of {name}", grad, expected_gradients[name])


@law
def gradients_reach_the_initial_state(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    start = case.state(layer, len(x))
    for label, outputs in (("outputs", [layer(x, start)[0]]), ("final state", list(layer(x, start)[1]))):
        found = gradients(layer, outputs, cotangents_like(outputs), start)
        dead = [f for i, f in enumerate(start._fields) if is_numeric(start[i]) and not found[f"source 0.{i}"].any()]
        assert len(dead) < len(start), f"no gradient from the {label} to the initial state"


@law
def states_can_be_stored(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    with torch.no_grad():
        _, state = layer(x)
        file = io.BytesIO()
        torch.save(tuple(state), file)
        file.seek(0)
        loaded = type(state)(*torch.load(file, weights_only=True))
        (expected, final), (y, again) = layer(x, state), layer(x, loaded)
    assert_equal("stored state", y, expected)
    assert_states_close("stored state", again, final, 0.0)
