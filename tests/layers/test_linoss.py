"""LinOSS against the difference equations that its matrices solve."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.linoss import LinOSS


def reference(layer, x):
    """Outputs before mixing and last state ``(P, 2)`` of one sequence: each oscillator is stepped by its own equations."""
    p = layer.d_state
    a, dt = torch.relu(layer.A_diag), torch.sigmoid(layer.steps)
    b = layer.input.weight[:p] + 1j * layer.input.weight[p:]
    c = layer.readout.out.weight[:, :p] - 1j * layer.readout.out.weight[:, p:]
    z = y = torch.zeros(p, dtype=torch.complex128)
    outputs = []
    for u in x:
        force = b @ u.to(b.dtype)
        z = z + dt * (force - a * y)
        if layer.scheme == "im":  # z' = z + dt (-a y' + force) and y' = y + dt z', solved for z'
            z = z / (1 + dt**2 * a)
        y = y + dt * z
        outputs.append((c @ y).real + layer.readout.skip * u)
    return torch.stack(outputs), torch.stack([z, y], dim=-1)


@pytest.mark.parametrize("options", [{}, {"scheme": "imex"}, {"chunk_size": 4}, {"scheme": "imex", "chunk_size": 1}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = LinOSS(5, d_state=3, glu=False, **options).double()
    with torch.no_grad():
        layer.A_diag[1] = -0.3  # A = 0: the block is not diagonalisable
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    y, state = layer(x)
    packed, ends = layer(x.flatten(0, 1).unsqueeze(0), cu_seqlens=torch.tensor([0, 11, 11, 22]))
    with torch.no_grad():
        for row in range(2):
            expected, last = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row, 0], last.flatten(), rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(packed[0, 11 * row : 11 * row + 11], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(ends.h[2 * row, 0], last.flatten(), rtol=1e-10, atol=1e-12)


def eigenvalue_modulus(scheme, a, dt):
    layer = LinOSS(2, d_state=1, scheme=scheme).double()
    with torch.no_grad():
        layer.A_diag.fill_(a)
        layer.steps.fill_(math.log(dt / (1 - dt)))
    return layer.transitions(torch.zeros(1, 1, 2, dtype=torch.float64)).eigenvalues().abs().max().item()


@pytest.mark.parametrize(("a", "dt", "published"), [(0.5, 0.7, 1.0), (3.0, 0.9, 1.0), (10.0, 0.9, 5.93)])
def test_published_spectra(a, dt, published):
    assert eigenvalue_modulus("imex", a, dt) == pytest.approx(published, abs=5e-3)
    assert eigenvalue_modulus("im", a, dt) == pytest.approx((1 + dt**2 * a) ** -0.5, rel=1e-10)


def test_published_initialisation():
    torch.manual_seed(1)
    layer = LinOSS(100, d_state=400, scheme="imex")
    for parameter in (layer.A_diag, layer.steps):
        assert parameter.min() >= 0 and parameter.max() <= 1
        assert parameter.mean().item() == pytest.approx(0.5, abs=0.05)
    for weight, size in ((layer.input.weight, 100), (layer.readout.out.weight, 400)):
        assert weight.abs().max() <= size**-0.5
        assert weight.var().item() == pytest.approx(1 / (3 * size), rel=0.05)
    assert layer.readout.skip.var().item() == pytest.approx(1.0, rel=0.3)
    # It starts where imex is stable.
    assert (layer.transitions(torch.zeros(1, 1, 100)).eigenvalues().abs() < 1 + 1e-5).all()


def test_an_undamped_oscillator_is_a_clock():
    """``dt^2 A = 2`` makes imex turn by a quarter per token: ``M^4 = 1``."""
    layer = LinOSS(2, d_state=1, scheme="imex").double()
    with torch.no_grad():
        layer.steps.fill_(math.log(9.0))
        layer.A_diag.fill_(2 / 0.81)
    start = type(layer.initial_state(1))(torch.randn(1, 1, 2, dtype=torch.complex128))
    for length, same in ((4 * 500, True), (4 * 500 + 2, False)):
        _, state = layer(torch.zeros(1, length, 2, dtype=torch.float64), start)
        torch.testing.assert_close(state.h, start.h if same else -start.h, rtol=0, atol=1e-10)


def test_oscillators_stay_float32():
    layer = LinOSS(4, d_state=3).half()
    assert layer.A_diag.dtype == layer.steps.dtype == torch.float32
    assert layer.input.weight.dtype == torch.float16


@pytest.mark.parametrize("options", [{"d_state": 0}, {"scheme": "explicit"}, {"chunk_size": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        LinOSS(4, **options)
