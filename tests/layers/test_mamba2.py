"""Mamba-2 against its equations."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.mamba2 import Mamba2


def reference(layer, x):
    """Outputs, last convolution inputs and last state ``(H, N, P)`` for one sequence, token by token."""
    heads, n, p = layer.n_heads, layer.d_state, layer.d_head
    channels, line = heads * p, heads * p + 2 * n
    window = torch.zeros(layer.conv.weight.shape[1], line, dtype=x.dtype)
    states = torch.zeros(heads, n, p, dtype=x.dtype)
    outputs = []
    for u in x:
        projected = layer.in_proj.weight @ u
        z, r = projected[:channels], projected[channels + line :]
        window = torch.cat([window[1:], projected[None, channels : channels + line]])
        mixed = (window * layer.conv.weight.mT).sum(0) + layer.conv.bias
        mixed = mixed / (1 + torch.exp(-mixed))
        v, b, c = mixed[:channels], mixed[channels : channels + n], mixed[channels + n :]
        dt = torch.log1p(torch.exp(r + layer.dt_bias))
        y = torch.zeros(channels, dtype=x.dtype)
        for h in range(heads):
            own = v[h * p : (h + 1) * p]
            states[h] = torch.exp(-dt[h] * torch.exp(layer.A_log[h])) * states[h] + dt[h] * torch.outer(b, own)
            y[h * p : (h + 1) * p] = states[h].T @ c + layer.D[h] * own
        y = y * z / (1 + torch.exp(-z))
        y = layer.norm.weight * y / torch.sqrt((y**2).mean() + 1e-5)
        outputs.append(layer.out_proj.weight @ y)
    return torch.stack(outputs), window[1:], states


@pytest.mark.parametrize(
    "options", [{}, {"expand": 1, "d_head": 5}, {"d_conv": 1, "chunk_size": 1}, {"d_conv": 2, "backend": "reference"}]
)
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = Mamba2(5, **{"d_state": 3, "d_head": 4, "chunk_size": 3, **options}).double()
    for parameter in (layer.D, layer.norm.weight):
        nn.init.normal_(parameter)
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, window, s = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(state.conv[row], window, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(state.s[row], s, rtol=1e-11, atol=1e-11)


def test_eigenvalues_are_one_real_decay_per_head():
    torch.manual_seed(1)
    transitions = Mamba2(6, d_state=4, d_head=3).transitions(3 * torch.randn(2, 20, 6))
    values = transitions.eigenvalues()
    assert values.shape == (2, 20, 4, 4)
    assert transitions.dtype == torch.float32
    assert ((values.real > 0) & (values.real < 1) & (values.imag == 0)).all()
    assert (values == values[..., :1]).all()


def test_published_initialisation():
    torch.manual_seed(2)
    layer = Mamba2(2048)
    assert (layer.d_state, layer.d_head, layer.n_heads) == (128, 64, 64)
    assert layer.in_proj.weight.shape == (2 * 4096 + 2 * 128 + 64, 2048)
    assert layer.conv.weight.shape == (4096 + 2 * 128, 4)
    a = layer.A_log.exp()
    assert ((a >= 1) & (a <= 16)).all()
    assert a.mean().item() == pytest.approx(8.5, abs=2.5)
    dt = nn.functional.softplus(layer.dt_bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.6)
    assert (layer.D == 1).all()
    assert (layer.norm.weight == 1).all()
    assert layer.norm.eps == 1e-5
    assert [m.bias is None for m in (layer.in_proj, layer.out_proj)] == [True] * 2


def test_decay_parameters_stay_float32():
    layer = Mamba2(4, d_state=4, d_head=4).half()
    assert layer.in_proj.weight.dtype == torch.float16
    assert layer.A_log.dtype == layer.D.dtype == layer.dt_bias.dtype == torch.float32


@pytest.mark.parametrize("option", ["d_state", "d_head", "expand", "d_conv", "chunk_size"])
def test_bad_options_are_refused(option):
    with pytest.raises(InvalidInputError, match=option):
        Mamba2(4, **{option: 0})
