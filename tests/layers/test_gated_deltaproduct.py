"""Gated DeltaProduct against its equations, and an automaton that needs its gate: rotations with resets."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.deltaproduct import DeltaProduct
from statetrack.layers.gated_deltanet import GatedDeltaNet
from statetrack.layers.gated_deltaproduct import GatedDeltaProduct

OPTIONS = [
    {},
    {"n_householder": 1},
    {"n_householder": 3, "n_heads": 1, "d_head": 4},
    {"short_conv": False, "output_gate": False, "expand_v": 1, "backend": "reference"},
    {"negative_eigenvalues": False},
    {"additive_input": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = GatedDeltaProduct(5, **{"n_heads": 2, **options}).double()
    scale = 2 if options.get("negative_eigenvalues", True) else 1
    x = 4 * torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.forget.a_proj.weight.mul_(20)
        y, state = layer(x)
        for row in range(2):
            expected, states = delta_equations.run_householder(layer, x[row], scale)
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-12)


def test_transitions_decay_once(delta_equations):
    torch.manual_seed(1)
    layer = GatedDeltaProduct(5, n_heads=2).double()
    x = 4 * torch.randn(1, 6, 5, dtype=torch.float64)
    rule = delta_equations.rule(layer, 2)
    with torch.no_grad():
        _, k, v, _ = layer.heads(x, layer.heads.initial_state(1), None)
        dense = layer.transitions(x).to_dense()
        for t, u in enumerate(x[0]):
            for h in range(2):
                first, second = (rule(u, h, k[0, 2 * t + j, h], v[0, 2 * t + j, h], j)[0] for j in range(2))
                torch.testing.assert_close(dense[0, t, h], second @ first, rtol=1e-12, atol=1e-12)


def test_special_cases_are_the_other_layers():
    torch.manual_seed(2)
    x = torch.randn(2, 7, 6)
    one = GatedDeltaProduct(6, n_heads=2, n_householder=1)
    gated = GatedDeltaNet(6, n_heads=2, negative_eigenvalues=True)
    gated.load_state_dict(one.state_dict())
    assert torch.equal(one(x)[0], gated(x)[0])
    open_gate, product = GatedDeltaProduct(6, n_heads=2), DeltaProduct(6, n_heads=2)
    with torch.no_grad():
        open_gate.forget.dt_bias.fill_(-1e4)
    product.load_state_dict({k: p for k, p in open_gate.state_dict().items() if not k.startswith("forget")})
    torch.testing.assert_close(open_gate(x)[0], product(x)[0])


def test_published_initialisation():
    torch.manual_seed(3)
    layer = GatedDeltaProduct(64, n_heads=16, d_head=4)
    assert (layer.substeps, layer.d_value) == (2, 8)
    rate, dt = layer.forget.A_log.exp(), nn.functional.softplus(layer.forget.dt_bias)
    assert ((rate > 0) & (rate < 16)).all()
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert layer.heads.conv.weight.shape == (64 + 128 + 256, 4)
    for linear in (m for m in layer.modules() if isinstance(m, nn.Linear)):
        bound = 2**-2.5 * math.sqrt(6 / sum(linear.weight.shape))
        assert 0.9 * bound < linear.weight.abs().max() <= bound


def test_rotations_with_resets_are_exact(reflections):
    """Letters turn a pentagon, or reset it: the gate erases the state and two writes of strength 1 restore the identity."""
    n, halves = 5, [0, 1, 2, -2, -1]
    turns = [[0.0, math.pi * a / n] if a >= 0 else [-math.pi * a / n, 0.0] for a in halves]
    keys = reflections.keys([*turns, [0.0, math.pi / 2]])
    keys[-1] = torch.eye(2)
    strengths = torch.tensor([[2.0, 2.0]] * n + [[1.0, 1.0]])
    values = torch.cat([torch.zeros(n, 2, 2), torch.eye(2).unsqueeze(0)])
    layer = GatedDeltaProduct(n + 1, n_heads=1, d_head=2, expand_v=1, short_conv=False, output_gate=False).double()
    reflections.set(layer, keys, strengths, values)
    with torch.no_grad():
        layer.forget.dt_bias.fill_(-1e4)
        layer.forget.a_proj.weight.zero_()
        layer.forget.a_proj.weight[0, n] = 2e4
        layer.forget.A_log.zero_()
    letters = np.random.default_rng(0).choice(n + 1, size=3000, p=[0.19] * n + [0.05])
    letters[0] = n
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(torch.as_tensor(letters), n + 1).double().unsqueeze(0))
    expected, position = [], 0
    for letter in letters:
        position = 0 if letter == n else (position + letter) % n
        angle = 0.3 - 2 * math.pi * position / n
        expected.append([math.cos(angle), math.sin(angle)])
    np.testing.assert_allclose(y[0, :, :2].numpy(), np.array(expected), atol=1e-4)


def test_bad_options_are_refused():
    with pytest.raises(InvalidInputError, match="substeps 0"):
        GatedDeltaProduct(4, n_householder=0)
