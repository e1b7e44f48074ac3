"""KDA against its equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.kda import KDA

OPTIONS = [
    {},
    {"n_heads": 1, "d_head": 4, "expand_v": 2},
    {"short_conv": False, "output_gate": False},
    {"bounded_decay": True},
    {"negative_eigenvalues": True},
    {"additive_input": False, "negative_eigenvalues": True},
]


def matrices(layer, equations, scale=1):
    def rule(u, h, k, v):
        decay = torch.diag(torch.exp(equations.log_decay(layer.decay, u)[h]))
        beta = scale / (1 + torch.exp(-layer.strength.b_proj.weight[h] @ u))
        return (torch.eye(len(k), dtype=k.dtype) - beta * torch.outer(k, k)) @ decay, beta * torch.outer(k, v)

    return rule


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = KDA(5, **{"n_heads": 2, **options}).double()
    scale = 2 if options.get("negative_eigenvalues") else 1
    x = 2 * torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.decay.dt_bias.add_(2 * torch.randn_like(layer.decay.dt_bias))
        y, state = layer(x)
        for row in range(2):
            expected, states = delta_equations.run(layer, x[row], matrices(layer, delta_equations, scale))
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-12)


def test_many_chunks_with_strong_decays_follow_the_equations(delta_equations):
    """200 tokens, whose log decays fall below -1000 in some channels and are tiny in others."""
    torch.manual_seed(1)
    layer = KDA(5, n_heads=2).double()
    x = torch.randn(1, 200, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.decay.project[1].weight.mul_(4000)
        y, state = layer(x)
        expected, states = delta_equations.run(layer, x[0], matrices(layer, delta_equations))
        log_decay = torch.stack([delta_equations.log_decay(layer.decay, u) for u in x[0]])
    assert log_decay.min() < -1000
    assert log_decay.max() > -1e-6
    torch.testing.assert_close(y[0], expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(state.h[0], states[-1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("negative", "low"), [(False, 0.0), (True, -1.0)])
def test_eigenvalues_are_real_and_bounded(negative, low):
    torch.manual_seed(2)
    layer = KDA(6, n_heads=2, negative_eigenvalues=negative).double()
    with torch.no_grad():
        layer.strength.b_proj.weight.mul_(20)
    values = layer.transitions(3 * torch.randn(2, 50, 6, dtype=torch.float64)).eigenvalues()
    assert values.imag.abs().max() < 1e-9
    assert low < values.real.min()
    assert values.real.max() < 1
    assert (values.real.min() < -0.5) == negative


def test_published_initialisation():
    torch.manual_seed(3)
    layer = KDA(64, n_heads=8)
    assert (layer.d_head, layer.d_value) == (8, 8)
    rate = layer.decay.A_log.exp()
    assert rate.shape == (8,)
    assert ((rate > 1) & (rate < 16)).all()
    dt = torch.nn.functional.softplus(layer.decay.dt_bias)
    assert dt.shape == (8, 8)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.5)
    assert [m.weight.shape for m in layer.decay.project] == [(8, 64), (64, 8)]
    assert [m.bias is None for m in layer.readout.gate] == [True, False]
    assert (KDA(64, n_heads=8, bounded_decay=True).decay.A_log == 0).all()
    assert layer.strength.b_proj.bias is None
    assert layer.heads.conv.bias is None


def test_one_reflection_tracks_parity_for_ever():
    """a = 1, beta = 2: the letter 1 turns the written value around, the letter 0 has an orthogonal key that holds nothing."""
    layer = KDA(4, n_heads=1, d_head=2, short_conv=False, output_gate=False, negative_eigenvalues=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.decay.dt_bias.fill_(-200.0)
        layer.readout.norm.weight.fill_(1.0)
        # Letters: 0 and 1, the start that writes the value, and one input for the output.
        heads = layer.heads
        heads.q_proj.weight[0] = 1000.0
        heads.k_proj.weight[0, 1:3], heads.k_proj.weight[1, 0] = 1000.0, 1000.0
        heads.v_proj.weight[0, 2] = 1.0
        layer.strength.b_proj.weight[0, :3] = torch.tensor([200.0, 200.0, 0.0])
        layer.readout.out.weight[3, 0] = 1.0
    bits = torch.randint(2, (3000,), generator=torch.Generator().manual_seed(4))
    x = torch.nn.functional.one_hot(torch.cat([torch.tensor([2]), bits]), 4).float().unsqueeze(0)
    with torch.no_grad():
        y, _ = layer(x)
    expected = 1 - 2 * (bits.cumsum(0) % 2)
    torch.testing.assert_close(y[0, 1:, 3] / y[0, 0, 3], expected.float(), rtol=1e-4, atol=1e-4)


def test_decay_parameters_stay_float32():
    layer = KDA(6, n_heads=2).bfloat16()
    assert layer.decay.A_log.dtype == layer.decay.dt_bias.dtype == torch.float32
    assert layer.decay.project[0].weight.dtype == torch.bfloat16


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}, {"expand_v": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        KDA(4, **options)
