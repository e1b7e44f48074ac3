"""Negative Mamba against its equations, and parity with weights set by hand."""

import pytest
import torch
from torch import nn

from statetrack.layers.mamba import Mamba
from statetrack.layers.negative_mamba import NegativeMamba


@pytest.mark.parametrize("options", [{}, {"dt_rank": 3}, {"d_conv": 1, "expand": 1, "backend": "reference"}])
def test_outputs_follow_the_equations(mamba_run, options):
    torch.manual_seed(0)
    layer = NegativeMamba(5, d_state=3, **options).double()
    with torch.no_grad():
        nn.init.normal_(layer.D)
        layer.dt_proj.bias.add_(3.0)
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, window, h = mamba_run(layer, x[row], lambda dt, a: [2 * torch.exp(dt * entry) - 1 for entry in a])
            torch.testing.assert_close(y[row], expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.conv[row], window, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.h[row], h, rtol=1e-12, atol=1e-12)


def test_eigenvalues_are_real_and_take_both_signs():
    torch.manual_seed(1)
    layer = NegativeMamba(6)
    with torch.no_grad():
        layer.dt_proj.bias.fill_(-1.0)
    values = layer.transitions(3 * torch.randn(2, 20, 6)).value
    assert values.dtype == torch.float32
    assert ((values >= -1) & (values < 1)).all()
    assert (values < -0.9).any()
    assert (values > 0.2).any()


def test_starts_like_mamba_with_eigenvalues_near_one():
    torch.manual_seed(2)
    layer = NegativeMamba(16)
    torch.manual_seed(2)
    plain = Mamba(16)
    for (name, parameter), (_, other) in zip(layer.named_parameters(), plain.named_parameters(), strict=True):
        assert torch.equal(parameter, other), name
    x = torch.randn(2, 9, 16)
    stretched, values = layer.transitions(x).value, plain.transitions(x).value
    torch.testing.assert_close((1 + stretched) / 2, values, rtol=1e-6, atol=1e-6)
    assert stretched[..., 0].mean() > 0.8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_is_exact_with_weights_set_by_hand(dtype):
    """A 1 makes the time step 40, hence ``a = -1``, and writes c: the state goes 0, c, 0, c. A 0 makes it 0: nothing happens."""
    layer = NegativeMamba(2, d_state=1, expand=1, d_conv=1, dt_rank=1).to(dtype)
    on = torch.nn.functional.silu(torch.ones((), dtype=dtype))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.in_proj.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [1, 1], [1, 1]]))
        layer.conv.weight.fill_(1.0)
        layer.x_proj.weight.copy_(torch.tensor([[0.0, 1], [0, 1], [1, 1]]))
        layer.dt_proj.weight.fill_(80 / on)
        layer.dt_proj.bias.fill_(-40)
        layer.out_proj.weight.copy_(torch.eye(2))
    bits = torch.randint(2, (4, 3000), generator=torch.Generator().manual_seed(3))
    x = torch.nn.functional.one_hot(bits, 2).to(dtype)
    with torch.no_grad():
        y, state = layer(x)
    odd = bits.cumsum(1) % 2 == 1
    assert torch.equal(y[..., 1] > 0, odd)
    assert not y[..., 1][~odd].any()
    assert set(layer.transitions(x).value[..., 1, 0].flatten().tolist()) == {-1.0, 1.0}
    assert state.h[:, 1, 0].unique().numel() <= 2
