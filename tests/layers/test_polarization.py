"""Pinned eigenvalues against running sums and single writes, and learned ones against the layer as it was."""

from __future__ import annotations

import copy

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers import Layer, make_layer
from statetrack.layers.pins import Pins
from statetrack.layers.polarization import polarize

LAYERS = {
    "mamba": {"d_state": 4, "d_conv": 1},
    "negative-mamba": {"d_state": 4, "d_conv": 1},
    "mamba2": {"d_state": 3, "d_head": 2, "d_conv": 1},
    "aussm": {"d_state": 4},
    "simple-aussm": {"d_state": 4},
    "complex-diagonal": {"d_state": 4, "n_heads": 2},
}


def made(name: str) -> Layer:
    torch.manual_seed(0)
    layer = make_layer(name, 4, **LAYERS[name]).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def inputs(length: int = 9) -> torch.Tensor:
    return torch.randn(2, length, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def states(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    """The recurrent states after each token, with what pins count at the end: ``(B, L, ..., N)``."""
    with torch.no_grad():
        run = torch.stack([layer(x[:, : t + 1])[1][-1] for t in range(x.shape[1])], 1)
    return run.movedim(2, -1) if layer.pins_heads else run


def writes(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    """What every token adds: the states after it alone."""
    with torch.no_grad():
        alone = torch.stack([layer(x[:, t : t + 1])[1][-1] for t in range(x.shape[1])], 1)
    return alone.movedim(2, -1) if layer.pins_heads else alone


@pytest.mark.parametrize(("ones", "zeros"), [(1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize("name", LAYERS)
def test_pinned_states_are_sums_and_last_writes(name, ones, zeros):
    plain, x = made(name), inputs()
    layer = polarize(plain, n_ones=ones, n_zeros=zeros)
    found, added, before = states(layer, x), writes(plain, x), states(plain, x)
    n = found.shape[-1]
    torch.testing.assert_close(found[..., :ones], added[..., :ones].cumsum(1), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found[..., n - zeros :], added[..., n - zeros :], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found[..., ones : n - zeros], before[..., ones : n - zeros], rtol=1e-12, atol=1e-14)
    assert layer.pins == Pins(ones, zeros)
    assert plain.pins == Pins()


@pytest.mark.parametrize("name", LAYERS)
def test_steps_padding_and_gradients_see_the_pins(name):
    layer, x = polarize(made(name)), inputs(6)
    whole, state = layer(x)
    assert all(torch.isfinite(p).all() for p in torch.autograd.grad(whole.square().sum(), list(layer.parameters())))
    with torch.no_grad():
        now, outputs = layer.initial_state(2), []
        for t in range(6):
            y, now = layer.step(x[:, t], now)
            outputs.append(y)
        torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(now[-1], state[-1], rtol=1e-10, atol=1e-12)
        mask = torch.tensor([[True] * 6, [False, True, True, False, True, True]])
        masked, _ = layer(x, mask=mask)
        torch.testing.assert_close(masked[1, mask[1]], layer(x[1:, mask[1]])[0][0], rtol=1e-10, atol=1e-12)


def test_a_pinned_copy_trains_and_is_copied_with_its_pins():
    layer = polarize(made("mamba"))
    again = copy.deepcopy(layer)
    again.load_state_dict(layer.state_dict())
    optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
    again(inputs())[0].square().mean().backward()
    optimizer.step()
    value = again.transitions(inputs()).value
    assert (value[..., 0] == 1).all()
    assert (value[..., -1] == 0).all()
    assert not again.A_log.grad[:, [0, -1]].any()
    assert again.A_log.grad[:, 1:-1].any()


def test_bad_pins_are_refused():
    with pytest.raises(InvalidInputError, match="leave none to learn"):
        polarize(made("mamba"), n_ones=2, n_zeros=2)
    with pytest.raises(InvalidInputError, match="one of them positive"):
        polarize(made("mamba"), n_ones=0, n_zeros=0)
    with pytest.raises(InvalidInputError, match="already"):
        polarize(polarize(made("mamba")))
    with pytest.raises(InvalidInputError, match="additive_input=False"):
        polarize(make_layer("simple-aussm", 4, additive_input=False))

    class Careless(type(make_layer("lru", 4))):
        pinnable = True

    with pytest.raises(InvalidInputError, match=r"does not apply self\.pins"):
        polarize(Careless(4))
