"""GDN-2 against its equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.gdn2 import GDN2
from statetrack.layers.kda import KDA

OPTIONS = [
    {},
    {"n_heads": 1, "d_head": 4, "expand_v": 2},
    {"short_conv": False, "output_gate": False},
    {"bounded_decay": True},
    {"negative_eigenvalues": True},
    {"additive_input": False, "negative_eigenvalues": True},
]


def matrices(layer, equations, scale):
    n_heads, k_size, v_size = layer.n_heads, layer.d_head, layer.d_value

    def rule(u, h, k, v):
        decay = torch.diag(torch.exp(equations.log_decay(layer.decay, u)[h]))
        b = scale / (1 + torch.exp(-(layer.erase.weight @ u).view(n_heads, k_size)[h]))
        w = 0 if layer.write is None else 1 / (1 + torch.exp(-(layer.write.weight @ u).view(n_heads, v_size)[h]))
        return (torch.eye(k_size, dtype=k.dtype) - torch.outer(k, b * k)) @ decay, torch.outer(k, w * v)

    return rule


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = GDN2(5, **{"n_heads": 2, **options}).double()
    scale = 2 if options.get("negative_eigenvalues") else 1
    x = 2 * torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.decay.dt_bias.add_(2 * torch.randn_like(layer.decay.dt_bias))
        y, state = layer(x)
        for row in range(2):
            expected, states = delta_equations.run(layer, x[row], matrices(layer, delta_equations, scale))
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-12)


def test_many_chunks_follow_the_equations(delta_equations):
    torch.manual_seed(1)
    layer = GDN2(5, n_heads=2, negative_eigenvalues=True).double()
    x = torch.randn(1, 200, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.decay.project[1].weight.mul_(100)
        layer.erase.weight.mul_(10)
        y, state = layer(x)
        expected, states = delta_equations.run(layer, x[0], matrices(layer, delta_equations, 2))
    torch.testing.assert_close(y[0], expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(state.h[0], states[-1], rtol=1e-9, atol=1e-11)


def test_gates_that_agree_make_it_kda():
    torch.manual_seed(2)
    kda = KDA(6, n_heads=2, negative_eigenvalues=False).double()
    layer = GDN2(6, n_heads=2).double()
    beta = kda.strength.b_proj.weight
    with torch.no_grad():
        layer.load_state_dict(
            {k: v for k, v in kda.state_dict().items() if not k.startswith("strength")}
            | {name: beta.repeat_interleave(3, dim=0) for name in ("erase.weight", "write.weight")}
        )
        x = torch.randn(2, 70, 6, dtype=torch.float64)
        (y, state), (expected, expected_state) = layer(x), kda(x)
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(state.h, expected_state.h, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("negative", "low"), [(False, 0.0), (True, -1.0)])
def test_eigenvalues_are_real_though_the_matrix_is_not_symmetric(negative, low):
    torch.manual_seed(3)
    layer = GDN2(8, n_heads=2, negative_eigenvalues=negative).double()
    with torch.no_grad():
        layer.erase.weight.mul_(20)
    stated = layer.transitions(3 * torch.randn(2, 50, 8, dtype=torch.float64))
    dense, values = stated.to_dense(), stated.eigenvalues()
    assert (dense - dense.mT).abs().max() > 0.1
    assert values.imag.abs().max() < 1e-7
    assert low < values.real.min()
    assert values.real.max() < 1
    assert (values.real.min() < -0.5) == negative


def test_published_initialisation():
    torch.manual_seed(4)
    layer = GDN2(64, n_heads=8)
    assert layer.erase.weight.shape == layer.write.weight.shape == (64, 64)
    assert layer.erase.bias is None
    assert layer.write.bias is None
    rate = layer.decay.A_log.exp()
    assert ((rate > 1) & (rate < 16)).all()
    dt = torch.nn.functional.softplus(layer.decay.dt_bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.5)


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}, {"expand_v": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        GDN2(4, **options)
