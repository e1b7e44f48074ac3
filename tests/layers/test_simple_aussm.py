"""Simple AUSSM against its equations, and as an exact automaton."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers import layers
from statetrack.layers.simple_aussm import SimpleAUSSM
from statetrack.testing import check_layer


def reference(layer, x):
    """Outputs and last state for one sequence, token by token."""
    n = layer.d_state
    h = torch.full((n,), 1.0 if layer.input is None else 0.0, dtype=torch.complex128)
    first, last = layer.decoder[0], layer.decoder[2]
    outputs = []
    for token in x:
        theta = layer.phase.linear.weight @ token
        if layer.phase.levels is not None:
            step = 2 * math.pi / layer.phase.levels
            theta = torch.round(theta / step) * step
        h = torch.exp(1j * theta) * h
        if layer.input is not None:
            drive = (layer.input.weight @ token).view(n, 2)
            h = h + drive[:, 0] + 1j * drive[:, 1]
        hidden = first.weight @ torch.cat([h.real, h.imag, token]) + first.bias
        hidden = 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2)))
        outputs.append(last.weight @ hidden + last.bias)
    return torch.stack(outputs), h


@pytest.mark.parametrize(
    "options", [{}, {"additive_input": False}, {"phase_levels": 5, "d_hidden": 1}, {"phase_levels": 4, "additive_input": False}]
)
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = SimpleAUSSM(5, d_state=3, **options).double()
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(state.h[row, 0], h, rtol=1e-11, atol=1e-11)


def test_without_levels_gradients_are_derivatives():
    """Of every parameter and the input; as a registered layer it is excused for the phases, which levels may round."""

    class Unregistered(SimpleAUSSM):
        pass

    assert Unregistered not in [layers.get(name) for name in layers]
    check_layer(Unregistered, laws=["gradients_are_derivatives", "linear_maps_can_be_wrapped"], d_state=3)


def test_initial_phases_cover_the_circle():
    torch.manual_seed(1)
    layer = SimpleAUSSM(32, d_state=64)
    x = torch.randn(4, 50, 32)
    assert layer.phase.linear(x).std().item() == pytest.approx(math.pi / math.sqrt(3), rel=0.1)
    values = layer.transitions(x).value
    assert values.shape == (4, 50, 1, 64)
    assert values.mean().abs() < 0.25
    torch.testing.assert_close(values.abs(), torch.ones(4, 50, 1, 64), rtol=2e-7, atol=0)
    drive = layer.input(torch.randn(200, 32)).unflatten(-1, (64, 2))
    assert drive.square().sum(-1).mean().item() == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize(("m", "n"), [(2, 3), (4, 6)])
def test_a_product_of_cyclic_groups_is_tracked_exactly(m, n):
    """One coordinate per factor turns by ``2 pi k / m``: no error in 20,000 random tokens, in single precision."""
    layer = SimpleAUSSM(m * n, d_state=2, additive_input=False, phase_levels=math.lcm(m, n))
    elements = [(i, j) for i in range(m) for j in range(n)]
    with torch.no_grad():
        turns = torch.tensor([[i / m, j / n] for i, j in elements])
        layer.phase.linear.weight.copy_(2 * math.pi * turns.T)
    tokens = torch.randint(m * n, (2, 20_000), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        x = torch.nn.functional.one_hot(tokens, m * n).float()
        _, half = layer(x[:, :10_000])
        _, final = layer(x[:, 10_000:], half)
    sums = torch.tensor(elements)[tokens].sum(1)
    found = torch.round(final.h[:, 0].angle() * torch.tensor([m, n]) / (2 * math.pi)).long()
    assert torch.equal(found % torch.tensor([m, n]), sums % torch.tensor([m, n]))
    torch.testing.assert_close(final.h.abs(), torch.ones(2, 1, 2), rtol=5e-3, atol=0)


def test_half_turns_are_exact_for_ever():
    """With two levels the state is 1 or -1 and nothing else."""
    torch.manual_seed(3)
    layer = SimpleAUSSM(4, d_state=5, additive_input=False, phase_levels=2)
    with torch.no_grad():
        _, state = layer(torch.randn(2, 5000, 4))
    assert set(state.h.real.flatten().tolist()) == {-1.0, 1.0}
    assert state.h.imag.abs().max() < 1e-12


@pytest.mark.parametrize("options", [{"d_state": 0}, {"d_hidden": 0}, {"phase_levels": 1}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        SimpleAUSSM(4, **options)
