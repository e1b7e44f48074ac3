"""LRU against its equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.lru import LRU


def reference(layer, x):
    """Outputs before mixing and last state of one sequence."""
    n = layer.d_state
    lam = torch.exp(-torch.exp(layer.nu_log) + 1j * torch.exp(layer.theta_log))
    b = layer.input.weight[:n] + 1j * layer.input.weight[n:]
    c = layer.readout.out.weight[:, :n] - 1j * layer.readout.out.weight[:, n:]
    h = torch.zeros(n, dtype=torch.complex128)
    outputs = []
    for u in x:
        h = lam * h + torch.exp(layer.gamma_log) * (b @ u.to(b.dtype))
        outputs.append((c @ h).real + layer.readout.skip * u)
    return torch.stack(outputs), h


@pytest.mark.parametrize("options", [{}, {"r_min": 0.9, "r_max": 0.999, "max_phase": 0.3}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = LRU(5, d_state=4, glu=False, **options).double()
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row, 0], h, rtol=1e-10, atol=1e-12)


def test_eigenvalues_start_on_a_ring():
    torch.manual_seed(1)
    layer = LRU(64, d_state=2000, r_min=0.5, r_max=0.9, max_phase=1.0)
    values = layer.transitions(torch.zeros(1, 1, 64)).value[0, 0, 0]
    modulus, phase = values.abs(), values.angle()
    assert modulus.min() >= 0.4999 and modulus.max() <= 0.9001
    assert phase.min() >= 0 and phase.max() <= 1.0
    # Uniform by area: the square of the modulus is uniform, and so is the phase.
    assert modulus.square().mean().item() == pytest.approx((0.25 + 0.81) / 2, abs=0.01)
    assert phase.mean().item() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(layer.gamma_log.exp(), (1 - modulus.square()).sqrt(), rtol=1e-4, atol=1e-5)
    assert layer.input.weight.var().item() == pytest.approx(1 / 128, rel=0.05)
    assert layer.readout.out.weight.var().item() == pytest.approx(1 / 2000, rel=0.05)
    assert all(torch.isfinite(p).all() for p in LRU(4, d_state=5000).parameters())


def test_a_fixed_rotation_is_a_clock():
    """With modulus 1 and phase ``2 pi / 5`` the state of one impulse says at what position modulo 5 it is read, whatever is."""
    layer = LRU(1, d_state=1).double()
    with torch.no_grad():
        layer.nu_log.fill_(-60.0)
        layer.theta_log.fill_(math.log(2 * math.pi / 5))
        layer.gamma_log.zero_()
        layer.input.weight.copy_(torch.tensor([[1.0], [0.0]]))
    x = torch.zeros(1, 5 * 400 + 3, 1, dtype=torch.float64)
    x[0, 0] = 1.0
    _, state = layer(x)
    expected = torch.exp(torch.tensor(2j * math.pi * 2 / 5, dtype=torch.complex128))
    torch.testing.assert_close(state.h[0, 0, 0], expected, rtol=0, atol=1e-10)


def test_eigenvalues_stay_float32():
    layer = LRU(4, d_state=3).bfloat16()
    assert layer.nu_log.dtype == layer.theta_log.dtype == layer.gamma_log.dtype == torch.float32
    assert layer.input.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("options", [{"d_state": 0}, {"r_min": 1.0}, {"r_max": 1.1}, {"r_min": -0.1}, {"max_phase": 0.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        LRU(4, **options)
