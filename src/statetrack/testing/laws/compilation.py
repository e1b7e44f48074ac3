"""``torch.compile`` without graph breaks."""

from __future__ import annotations

import torch

from statetrack.testing.case import Case, cotangents_like, gradients
from statetrack.testing.compare import assert_close, assert_equal, assert_states_close
from statetrack.testing.laws.registry import law


@law
def compiled_equals_eager(case: Case) -> None:
    layer, x = case.build(), case.inputs().requires_grad_()
    start = case.state(layer, len(x))
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=False)
    (y, state), (expected, expected_state) = compiled(x, start), layer(x, start)
    kept = y.detach().clone()
    compiled(x + 1.0, start)
    assert_equal("the first output after a second call", y.detach(), kept)
    assert_close("compiled", y, expected)
    assert_states_close("compiled", state, expected_state)
    cotangents = cotangents_like([expected, *expected_state])
    expected_gradients = gradients(layer, [expected, *expected_state], cotangents, x, start)
    for name, grad in gradients(layer, [y, *state], cotangents, x, start).items():
        assert_close(f"compiled: gradient of {name}", grad, expected_gradients[name])
    torch.compiler.reset()
