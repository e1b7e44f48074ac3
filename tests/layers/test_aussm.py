"""AUSSM against its equations, and counting modulo 6 with weights set by hand."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers import layers
from statetrack.layers.aussm import AUSSM
from statetrack.testing import check_layer


def polar(raw):
    return torch.log1p(torch.exp(raw[:, 0])) * torch.exp(1j * raw[:, 1])


def reference(layer, x):
    """Outputs and last state ``(E, N)`` for one sequence, token by token and channel by channel."""
    e, n = layer.d_model, layer.d_state
    b, c = polar(layer.B), polar(layer.C)
    weight = layer.phase.linear.weight.view(e, n, e)
    width = 1 if layer.conv is None else layer.conv.weight.shape[1]
    window = torch.zeros(width, e, dtype=x.dtype)
    h = torch.zeros(e, n, dtype=torch.complex128)
    outputs = []
    for token in x:
        projected = layer.in_proj.weight @ token
        window = torch.cat([window[1:], projected[None, :e]])
        v = window[0] if layer.conv is None else (window * layer.conv.weight.mT).sum(0) + layer.conv.bias
        z = projected[e:]
        dt = torch.log1p(torch.exp(layer.dt_proj.weight @ (layer.x_proj.weight @ v) + layer.dt_proj.bias))
        u = v * torch.sigmoid(v)
        y = torch.zeros(e, dtype=x.dtype)
        for channel in range(e):
            theta = weight[channel] @ v / math.sqrt(e) + layer.phase.offset[channel]
            theta = theta * dt[channel] if layer.phase_dt else theta
            if layer.phase.levels is not None:
                step = 2 * math.pi / layer.phase.levels
                theta = torch.round(theta / step) * step
            h[channel] = torch.exp(1j * theta) * h[channel] + b * dt[channel] * u[channel]
            y[channel] = (c * h[channel]).sum().real + layer.D[channel] * u[channel]
        outputs.append(layer.out_proj.weight @ (y * z * torch.sigmoid(z)))
    return torch.stack(outputs), h


@pytest.mark.parametrize(
    "options",
    [{}, {"d_conv": 1}, {"d_conv": 3, "phase_dt": True}, {"phase_levels": 5}, {"phase_levels": 4, "backend": "reference"}],
)
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = AUSSM(5, d_state=3, **options).double()
    with torch.no_grad():
        nn.init.normal_(layer.D)
        layer.dt_proj.bias.add_(3.0)
        layer.phase.linear.weight.mul_(4.0)
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(state.h[row], h, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("options", [{}, {"d_conv": 2, "phase_dt": True}])
def test_without_levels_gradients_are_derivatives(options):
    """Of every parameter and the input; as a registered layer it is excused for those that levels may round."""

    class Unregistered(AUSSM):
        pass

    assert Unregistered not in [layers.get(name) for name in layers]
    laws = ["gradients_are_derivatives", "linear_maps_can_be_wrapped", "every_parameter_gets_a_gradient"]
    check_layer(Unregistered, laws=laws, d_state=3, **options)


def test_rounding_passes_gradients_straight_through():
    """The gradient is that of the same rotations with unrounded phases behind them."""
    torch.manual_seed(1)
    layer = AUSSM(3, d_state=2, phase_levels=6).double()
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    value = layer.phase(x).value
    cotangent = torch.randn_like(value)
    found = torch.autograd.grad((cotangent.conj() * value).real.sum(), layer.phase.offset)[0]
    expected = (cotangent.conj() * 1j * value).real.sum((0, 1)).detach()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_eigenvalues_lie_on_the_unit_circle():
    torch.manual_seed(2)
    values = AUSSM(6).bfloat16().transitions(torch.randn(2, 30, 6).bfloat16()).value
    assert values.shape == (2, 30, 6, 16)
    assert values.dtype == torch.complex64
    torch.testing.assert_close(values.abs(), torch.ones_like(values.abs()), rtol=2e-7, atol=0)
    assert values.real.min() < -0.9
    assert values.imag.abs().max() > 0.9


@pytest.mark.parametrize("levels", [2, 3, 8])
def test_levels_leave_finitely_many_rotations(levels):
    torch.manual_seed(3)
    layer = AUSSM(6, phase_levels=levels)
    values = layer.transitions(torch.randn(2, 50, 6)).value.flatten().detach()
    roots = torch.exp(2j * math.pi * torch.arange(levels, dtype=torch.float64) / levels).to(torch.complex64)
    distance = (values.unsqueeze(-1) - roots).abs()
    assert len(torch.view_as_real(values).unique(dim=0)) == levels
    assert distance.min(-1).values.max() < 1e-7
    layer.phase.levels = None
    exact = layer.transitions(torch.zeros(1, 1, 6)).value.angle()
    layer.phase.levels = levels
    rounded = layer.transitions(torch.zeros(1, 1, 6)).value.angle()
    apart = torch.remainder(exact - rounded + math.pi, 2 * math.pi) - math.pi
    assert apart.abs().max() <= math.pi / levels + 1e-5


@pytest.mark.parametrize("phase_levels", [None, 6])
def test_counting_modulo_6_with_weights_set_by_hand(phase_levels):
    """The first token writes to two channels, the second turns one of them by a quarter, later ones turn both by k / 6.

    What both show, the real part of ``C h``, is the sine and the cosine of the count.
    """
    layer = AUSSM(8, d_state=1, phase_levels=None if phase_levels is None else 12)
    inverse = torch.tensor(1.0).expm1().log()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        eye = torch.eye(8)
        layer.in_proj.weight[:8] = 0
        layer.in_proj.weight[[0, 1], 0] = 1.0
        layer.in_proj.weight[2:8] = eye[1:7]
        layer.in_proj.weight[8:] = 1.0
        for letter in range(5):
            layer.phase.linear.weight[:2, 3 + letter] = math.sqrt(8) * 2 * math.pi * (letter + 1) / 6
        layer.phase.linear.weight[1, 2] = -math.sqrt(8) * math.pi / 2
        layer.dt_proj.bias.fill_(inverse)
        layer.B[:, 0] = layer.C[:, 0] = inverse
        layer.out_proj.weight[:2, :2] = torch.eye(2)
    letters = torch.randint(5, (3, 3000), generator=torch.Generator().manual_seed(4))
    tokens = torch.cat([torch.tensor([0, 1]).expand(3, 2), 2 + letters], dim=1)
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(tokens, 8).float())
    cosine, sine = y[:, 2:, 0], y[:, 2:, 1]
    count = torch.round(torch.atan2(sine, cosine) * 6 / (2 * math.pi)).long() % 6
    assert torch.equal(count, (letters + 1).cumsum(1) % 6)
    size = torch.hypot(sine, cosine)
    torch.testing.assert_close(size, size[:, :1].expand_as(size), rtol=2e-3, atol=0)


def test_published_initialisation():
    torch.manual_seed(5)
    layer = AUSSM(64)
    assert layer.d_state == 16
    assert layer.phase.linear.weight.shape == (64 * 16, 64)
    offset = layer.phase.offset
    assert offset.abs().max() <= math.pi
    assert offset.std().item() == pytest.approx(math.pi / math.sqrt(3), rel=0.05)
    assert layer.phase.scale == pytest.approx(1 / 8)
    dt = nn.functional.softplus(layer.dt_proj.bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert (layer.D == 1).all()
    many = torch.cat([torch.stack([AUSSM(1, d_state=400).B, AUSSM(1, d_state=400).C]) for _ in range(3)])
    assert many.var().item() == pytest.approx(0.5, rel=0.1)
    assert layer.conv is None
    assert [m.bias is None for m in (layer.in_proj, layer.x_proj, layer.phase.linear, layer.out_proj)] == [True] * 4


def test_phases_stay_float32():
    layer = AUSSM(4).half()
    assert layer.in_proj.weight.dtype == torch.float16
    assert layer.phase.linear.weight.dtype == layer.phase.offset.dtype == torch.float32
    x = torch.randn(1, 3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        inside = layer.phase(x).value
    assert torch.equal(inside, layer.phase(x).value)


@pytest.mark.parametrize("options", [{"d_state": 0}, {"d_conv": 0}, {"phase_levels": 1}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        AUSSM(4, **options)
