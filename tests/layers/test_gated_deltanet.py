"""Gated DeltaNet against its equations."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.gated_deltanet import GatedDeltaNet

OPTIONS = [
    {},
    {"n_heads": 1, "d_head": 4, "expand_v": 1},
    {"short_conv": False, "output_gate": False},
    {"negative_eigenvalues": True, "backend": "reference"},
    {"additive_input": False, "negative_eigenvalues": True},
]


def assert_follows(layer, x, equations, scale):
    with torch.no_grad():
        y, state = layer(x)
        for row in range(len(x)):
            expected, states = equations.run_householder(layer, x[row], scale)
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-11)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = GatedDeltaNet(5, **{"n_heads": 2, **options}).double()
    assert_follows(
        layer, 4 * torch.randn(2, 9, 5, dtype=torch.float64), delta_equations, 2 if "negative_eigenvalues" in options else 1
    )


def test_many_chunks_with_strong_decays_follow_the_equations(delta_equations):
    """Log decays from below -300 to above -1e-6."""
    torch.manual_seed(1)
    layer = GatedDeltaNet(5, n_heads=2).double()
    x = torch.randn(1, 150, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.forget.a_proj.weight.mul_(400)
        log_decay = layer.forget(x)
    assert log_decay.min() < -300
    assert log_decay.max() > -1e-6
    assert_follows(layer, x, delta_equations, 1)


@pytest.mark.parametrize(("negative", "low"), [(False, 0.0), (True, -1.0)])
def test_eigenvalues_are_the_decay_and_one_smaller(negative, low):
    torch.manual_seed(2)
    layer = GatedDeltaNet(8, n_heads=2, negative_eigenvalues=negative).double()
    with torch.no_grad():
        layer.strength.b_proj.weight.mul_(100)
    x = 3 * torch.randn(2, 50, 8, dtype=torch.float64)
    values = layer.transitions(x).eigenvalues()
    assert values.imag.abs().max() < 1e-9
    ordered = values.real.sort(-1).values
    decay = layer.forget(x).exp().unsqueeze(-1)
    torch.testing.assert_close(ordered[..., 1:], decay.expand(2, 50, 2, 3))
    assert low < ordered.min() < low + 0.1
    assert ordered.max() < 1


def test_published_initialisation():
    torch.manual_seed(3)
    layer = GatedDeltaNet(64, n_heads=16, d_head=8)
    assert layer.d_value == 16
    rate = layer.forget.A_log.exp()
    assert rate.shape == (16,)
    assert ((rate > 0) & (rate < 16)).all()
    assert rate.mean().item() == pytest.approx(8, abs=3)
    dt = nn.functional.softplus(layer.forget.dt_bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.6)
    linears = [m for m in layer.modules() if isinstance(m, nn.Linear)]
    assert len(linears) == 7
    for linear in linears:
        assert linear.bias is None
        bound = 2**-2.5 * math.sqrt(6 / sum(linear.weight.shape))
        assert 0.9 * bound < linear.weight.abs().max() <= bound


def test_the_decay_stays_in_float32():
    layer = GatedDeltaNet(4, n_heads=2)
    with torch.no_grad():
        layer.forget.A_log.add_(1e-5)
    before = layer.forget.A_log.detach().clone()
    layer.bfloat16()
    assert layer.readout.out.weight.dtype == torch.bfloat16
    assert layer.forget.dt_bias.dtype == torch.float32
    assert torch.equal(layer.forget.A_log, before)
    transitions = layer.transitions(torch.randn(1, 3, 4).bfloat16())
    assert transitions.diagonal.dtype == torch.float32


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": -1}, {"expand_v": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError, match="at least 1"):
        GatedDeltaNet(4, **options)
