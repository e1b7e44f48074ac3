"""S4D against its equations."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.discretisation import bilinear, zero_order_hold
from statetrack.layers.s4d import S4D


def mix(layer, y):
    """GELU and gated linear unit of one vector."""
    if isinstance(layer.mix, nn.Identity):
        return y
    a, b = (layer.mix.linear.weight @ (0.5 * y * (1 + torch.erf(y / math.sqrt(2)))) + layer.mix.linear.bias).chunk(2)
    return a * torch.sigmoid(b)


def reference(layer, x):
    """Outputs and last state of one sequence, token by token and channel by channel."""
    a = -torch.exp(layer.log_A_real) + 1j * layer.A_imag
    dt = torch.exp(layer.log_dt)[:, None]
    decay = torch.exp(dt * a)
    gain = (decay - 1) / a
    c = layer.C[..., 0] + 1j * layer.C[..., 1]
    h = torch.zeros_like(a)
    outputs = []
    for u in x:
        h = decay * h + gain * u[:, None]
        outputs.append(mix(layer, 2 * (c * h).sum(-1).real + layer.D * u))
    return torch.stack(outputs), h


@pytest.mark.parametrize("options", [{}, {"init": "inv"}, {"glu": False}, {"chunk_size": 3}, {"chunk_size": 1}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = S4D(5, d_state=3, **options).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    y, state = layer(x)
    packed, ends = layer(x.flatten(0, 1).unsqueeze(0), cu_seqlens=torch.tensor([0, 11, 11, 22]))
    with torch.no_grad():
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], h, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(packed[0, 11 * row : 11 * row + 11], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(ends.h[2 * row], h, rtol=1e-10, atol=1e-12)


def test_single_precision_over_many_chunks():
    torch.manual_seed(1)
    layer = S4D(4, init="inv")
    x = torch.randn(1, 1000, 4)
    with torch.no_grad():
        y, _ = layer(x)
        expected, _ = layer.double()(x.double())
    torch.testing.assert_close(y, expected.float(), rtol=1e-3, atol=1e-4)


def test_published_initialisation():
    torch.manual_seed(2)
    layer = S4D(400)
    a, n = layer.A_imag[7], 64  # 32 modes stand for 64
    torch.testing.assert_close(layer.log_A_real.exp(), torch.full((400, 32), 0.5))
    torch.testing.assert_close(a, math.pi * torch.arange(32.0))
    inverse = S4D(2, init="inv").A_imag[1]
    assert inverse[0].item() == pytest.approx(n / math.pi * (n - 1))
    assert inverse[31].item() == pytest.approx(n / math.pi * (n / 63 - 1))
    dt = layer.log_dt.exp()
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert layer.log_dt.mean().item() == pytest.approx(math.log(1e-2), abs=0.2)
    assert layer.C.square().sum(-1).mean().item() == pytest.approx(1.0, rel=0.05)
    assert layer.D.var().item() == pytest.approx(1.0, rel=0.3)


def test_eigenvalues_are_fixed_and_inside_the_unit_disc():
    torch.manual_seed(3)
    layer = S4D(6)
    values = layer.transitions(3 * torch.randn(2, 5, 6)).value
    assert values.shape == (2, 5, 6, 32)
    assert torch.equal(values, values[:1, :1].expand_as(values))
    assert (values.abs() < 1).all()


def test_discretisations():
    """Small steps keep all digits of single precision; a constant input is integrated exactly by the zero-order hold."""
    rate = torch.tensor([-0.5 + 2j, -1e-3 + 0.1j, -30 + 400j], dtype=torch.complex128)
    for size in (1e-4, 1e-1):
        dt = torch.tensor(size, dtype=torch.float64)
        decay, gain = zero_order_hold(rate, dt)
        torch.testing.assert_close(decay, torch.exp(rate * dt), rtol=1e-13, atol=0)
        torch.testing.assert_close(zero_order_hold(rate.to(torch.complex64), dt.float())[1].to(gain), gain, rtol=1e-5, atol=0)
        series = dt * sum((rate * dt) ** k / float(math.factorial(k + 1)) for k in range(30))
        torch.testing.assert_close(gain[:2], series[:2], rtol=1e-12, atol=0)
        decay, gain = bilinear(rate, dt)
        torch.testing.assert_close(decay, (2 + dt * rate) / (2 - dt * rate), rtol=1e-13, atol=0)
        torch.testing.assert_close(decay, 1 + rate * gain, rtol=1e-12, atol=1e-15)


def test_rates_stay_float32():
    layer = S4D(4).half()
    assert layer.C.dtype == torch.float16
    assert layer.log_dt.dtype == layer.log_A_real.dtype == layer.A_imag.dtype == torch.float32


@pytest.mark.parametrize("options", [{"d_state": 0}, {"init": "legs"}, {"chunk_size": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        S4D(4, **options)
