"""S5 against its equations."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.s5 import S5, normal_hippo


def reference(layer, x):
    """Outputs and last state of one sequence; the layer is built without mixing."""
    lam = layer.Lambda_re + 1j * layer.Lambda_im
    dt = torch.exp(layer.log_step)
    if layer.discretization == "zoh":
        decay = torch.exp(lam * dt)
        gain = (decay - 1) / lam
    else:
        decay, gain = (1 + dt * lam / 2) / (1 - dt * lam / 2), dt / (1 - dt * lam / 2)
    n = layer.d_state
    b = layer.input.weight[:n] + 1j * layer.input.weight[n:]
    c = layer.readout.out.weight[:, :n] - 1j * layer.readout.out.weight[:, n:]
    h = torch.zeros(n, dtype=torch.complex128)
    outputs = []
    for u in x:
        h = decay * h + gain * (b @ u.to(b.dtype))
        outputs.append(layer.readout_factor * (c @ h).real + layer.readout.skip * u)
    return torch.stack(outputs), h


@pytest.mark.parametrize("options", [{}, {"discretization": "bilinear"}, {"conjugate_pairs": False}, {"n_blocks": 2}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = S5(5, d_state=4, glu=False, **options).double()
    assert layer.readout_factor == (1 if "conjugate_pairs" in options else 2)
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row, 0], h, rtol=1e-10, atol=1e-12)


def test_mixing_is_gelu_and_a_gated_linear_unit():
    torch.manual_seed(1)
    layer = S5(5, d_state=4).double()
    x = torch.randn(1, 6, 5, dtype=torch.float64)
    with torch.no_grad():
        y, _ = layer(x)
        plain, _ = reference(layer, x[0])
        v = nn.functional.gelu(plain, approximate="tanh") @ layer.mix.linear.weight.mT + layer.mix.linear.bias
        torch.testing.assert_close(y[0], v[:, :5] * torch.sigmoid(v[:, 5:]), rtol=1e-10, atol=1e-12)


def normal_part(size):
    """HiPPO-LegS plus its rank-one correction, entry by entry."""
    s = np.zeros((size, size))
    for n in range(size):
        for k in range(size):
            legs = -math.sqrt((2 * n + 1) * (2 * k + 1)) if n > k else -(n + 1) if n == k else 0.0
            s[n, k] = legs + math.sqrt((n + 0.5) * (k + 0.5))
    return s


def test_poles_are_those_of_the_normal_part_of_hippo():
    poles, vectors = normal_hippo(6)
    rebuilt = vectors @ torch.diag(poles) @ vectors.mH
    torch.testing.assert_close(rebuilt.real, torch.from_numpy(normal_part(6)), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(rebuilt.imag, torch.zeros(6, 6, dtype=torch.float64), rtol=0, atol=1e-10)
    layer = S5(4, d_state=8, n_blocks=2)
    expected = np.sort(np.linalg.eigvals(normal_part(8)).imag)[:4]
    np.testing.assert_allclose(layer.Lambda_im.detach().numpy(), np.tile(expected, 2), rtol=1e-5)
    torch.testing.assert_close(layer.Lambda_re.detach(), torch.full((8,), -0.5))


def test_published_scales():
    torch.manual_seed(2)
    layer = S5(300, d_state=32)
    assert layer.input.weight.square().sum(0).mean().item() == pytest.approx(0.5, rel=0.05)  # 32 of 64 rows of unit columns
    assert layer.input.weight.var().item() == pytest.approx(0.5 / 64, rel=0.05)
    assert layer.readout.out.weight.var().item() == pytest.approx(1 / 64, rel=0.05)
    assert layer.readout.skip.var().item() == pytest.approx(1.0, rel=0.3)
    dt = layer.log_step.exp()
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()


def test_clipping_holds_growing_modes():
    torch.manual_seed(3)
    x = torch.randn(1, 3, 4)
    for clip, grows in ((False, True), (True, False)):
        layer = S5(4, d_state=4, clip=clip)
        with torch.no_grad():
            layer.Lambda_re.fill_(0.5)
        assert bool((layer.transitions(x).value.abs() > 1).all()) is grows


@pytest.mark.parametrize("options", [{"d_state": 0}, {"n_blocks": 3}, {"n_blocks": 0}, {"discretization": "euler"}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        S5(4, **{"d_state": 4, **options})
