"""Polarized Mamba against its equations, and what its pinned states hold."""

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.polarized_mamba import PolarizedMamba


def transition(layer):
    """The diagonal of a channel: ones, learned, zeros."""

    def entries(dt, a):
        one, zero = torch.ones_like(dt), torch.zeros_like(dt) if layer.exact_zero else torch.exp(-1000 * dt)
        return [one] * layer.n_ones + [torch.exp(dt * entry) for entry in a] + [zero] * layer.n_zeros

    return entries


@pytest.mark.parametrize(
    "options", [{}, {"n_ones": 0}, {"n_zeros": 0}, {"n_ones": 2, "n_zeros": 3}, {"exact_zero": False, "backend": "reference"}]
)
def test_outputs_follow_the_equations(mamba_run, options):
    torch.manual_seed(0)
    layer = PolarizedMamba(4, d_state=3, expand=1, **options).double()
    nn.init.normal_(layer.D)
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, window, h = mamba_run(layer, x[row], transition(layer))
            torch.testing.assert_close(y[row], expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.conv[row], window, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.h[row], h, rtol=1e-12, atol=1e-12)


def drives(layer, x):
    """``dt B v``, shape ``(B, L, C, N)``, token by token without a recurrence."""
    return torch.stack(
        [layer(x[:, t : t + 1], layer.initial_state(len(x))._replace(conv=c))[1].h for t, c in windows(layer, x)], 1
    )


def windows(layer, x):
    """The convolution's inputs before every token."""
    state = layer.initial_state(len(x))
    for t in range(x.shape[1]):
        yield t, state.conv
        _, state = layer.step(x[:, t], state)


def test_pinned_states_are_running_sums_and_feed_through():
    torch.manual_seed(1)
    layer = PolarizedMamba(4, d_state=2).double()
    x = torch.randn(2, 12, 4, dtype=torch.float64)
    with torch.no_grad():
        added = drives(layer, x)
        states = torch.stack([layer(x[:, : t + 1])[1].h for t in range(12)], 1)
    torch.testing.assert_close(states[..., 0], added[..., 0].cumsum(1), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(states[..., -1], added[..., -1], rtol=1e-12, atol=1e-15)


def test_silence_keeps_one_state_and_clears_the_other():
    torch.manual_seed(2)
    layer = PolarizedMamba(4, d_state=2, d_conv=1)
    with torch.no_grad():
        layer.conv.bias.zero_()
        _, state = layer(torch.randn(2, 5, 4))
        _, after = layer(torch.zeros(2, 300, 4), state)
    assert torch.equal(after.h[..., 0], state.h[..., 0])
    assert not after.h[..., -1].any()
    assert state.h[..., -1].any()
    assert (after.h[..., 1:-1].abs() < state.h[..., 1:-1].abs()).all()


def test_a_constant_input_grows_without_bound():
    torch.manual_seed(3)
    layer = PolarizedMamba(4, d_state=2, d_conv=1).double()
    with torch.no_grad():
        h = [layer(torch.ones(1, length, 4, dtype=torch.float64))[1].h[..., 0] for length in (50, 100, 200)]
    torch.testing.assert_close(h[1], 2 * h[0], rtol=1e-10, atol=0)
    torch.testing.assert_close(h[2], 4 * h[0], rtol=1e-10, atol=0)


@pytest.mark.parametrize(("dt", "kept"), [(1e-1, 0.0), (1e-2, 4.5e-5), (1e-3, 0.368)])
def test_the_published_zero_is_soft_for_slow_channels(dt, kept):
    layer = PolarizedMamba(2, d_state=1, exact_zero=False)
    with torch.no_grad():
        layer.dt_proj.weight.zero_()
        layer.dt_proj.bias.copy_(torch.tensor(dt).expm1().log())
    values = layer.transitions(torch.randn(1, 3, 2)).value
    assert (values[..., 0] == 1).all()
    assert values[..., 2].mean().item() == pytest.approx(kept, rel=1e-2, abs=1e-6)


def test_published_initialisation():
    torch.manual_seed(4)
    layer = PolarizedMamba(32)
    assert layer.transitions(torch.zeros(1, 1, 32)).value.shape[-1] == 18
    torch.testing.assert_close(layer.A_log[3].exp(), torch.arange(1.0, 17))
    assert layer.x_proj.weight.shape == (2 + 2 * 18, 64)
    values = layer.transitions(torch.randn(1, 9, 32)).value
    assert (values[..., 0] == 1).all()
    assert (values[..., -1] == 0).all()
    assert ((values[..., 1:-1] > 0) & (values[..., 1:-1] < 1)).all()


@pytest.mark.parametrize("options", [{"d_state": 0}, {"n_ones": -1}, {"n_zeros": -1}, {"expand": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        PolarizedMamba(4, **options)
