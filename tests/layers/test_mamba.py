"""Mamba against its equations."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.mamba import Mamba
from statetrack.layers.time_step import time_step_bias


@pytest.mark.parametrize("options", [{}, {"dt_rank": 3}, {"d_conv": 1, "expand": 1}, {"d_conv": 2}])
def test_outputs_follow_the_equations(mamba_run, options):
    torch.manual_seed(0)
    layer = Mamba(5, d_state=3, **options).double()
    nn.init.normal_(layer.D)
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, window, h = mamba_run(layer, x[row], lambda dt, a: [torch.exp(dt * entry) for entry in a])
            torch.testing.assert_close(y[row], expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.conv[row], window, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.h[row], h, rtol=1e-12, atol=1e-12)


def test_eigenvalues_are_real_and_between_zero_and_one():
    torch.manual_seed(1)
    values = Mamba(6).transitions(3 * torch.randn(2, 20, 6)).value
    assert values.shape == (2, 20, 12, 16)
    assert values.dtype == torch.float32
    assert ((values > 0) & (values < 1)).all()


def test_published_initialisation():
    torch.manual_seed(2)
    layer = Mamba(64)
    assert layer.dt_rank == 4
    assert layer.A_log.shape == (128, 16)
    torch.testing.assert_close(layer.A_log[5].exp(), torch.arange(1.0, 17))
    assert (layer.D == 1).all()
    dt = nn.functional.softplus(layer.dt_proj.bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.5)
    assert layer.dt_proj.weight.abs().max() <= 4**-0.5
    assert [m.bias is None for m in (layer.in_proj, layer.x_proj, layer.out_proj)] == [True] * 3


def test_time_step_bias_is_the_inverse_of_softplus():
    generator_state = torch.get_rng_state()
    torch.manual_seed(3)
    bias = time_step_bias(1000, low=1e-6, high=1.0, floor=1e-3).double()
    torch.set_rng_state(generator_state)
    dt = torch.log1p(torch.exp(bias))
    assert dt.min().item() == pytest.approx(1e-3, rel=1e-3)
    assert dt.max() < 1.0001


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16, lambda m: m.to(torch.float16)])
def test_decay_parameters_stay_float32(convert):
    model = nn.Sequential(Mamba(4))
    layer = model[0]
    with torch.no_grad():
        layer.A_log.add_(1e-5)
    before = layer.A_log.detach().clone()
    convert(model)
    assert layer.in_proj.weight.dtype in (torch.float16, torch.bfloat16)
    assert layer.A_log.dtype == layer.D.dtype == torch.float32
    assert torch.equal(layer.A_log, before)
    assert any(p is layer.A_log for p in model.parameters())
    assert layer.double().A_log.dtype == torch.float64


@pytest.mark.parametrize("options", [{"d_state": 0}, {"expand": 0}, {"d_conv": 0}, {"dt_rank": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        Mamba(4, **options)
