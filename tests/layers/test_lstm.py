"""LSTM against its equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.lstm import LSTM, LSTMState


def gates(layer, x, h):
    """Pre-activations ``i, f, g, o`` of one token."""
    cell = layer.cell
    return (cell.weight_ih_l0 @ x + cell.bias_ih_l0 + cell.weight_hh_l0 @ h + cell.bias_hh_l0).chunk(4)


def step(layer, x, joint):
    """The joint state ``[h; c]`` after one token."""
    h, c = joint.chunk(2)
    i, f, g, o = gates(layer, x, h)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.cat([torch.sigmoid(o) * torch.tanh(c), c])


def test_outputs_and_jacobians_follow_the_equations():
    torch.manual_seed(0)
    layer = LSTM(5, d_state=3).double()
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    start = LSTMState(*torch.randn(2, 2, 3, dtype=torch.float64))
    y, state = layer(x, start)
    jacobians = layer.transitions(x, start).matrix
    assert jacobians.shape == (2, 6, 1, 6, 6)
    for row in range(2):
        joint = torch.cat([start.h[row], start.c[row]])
        for t in range(6):
            expected = torch.autograd.functional.jacobian(lambda s, row=row, t=t: step(layer, x[row, t], s), joint)
            torch.testing.assert_close(jacobians[row, t, 0], expected, rtol=1e-10, atol=1e-12)
            joint = step(layer, x[row, t], joint).detach()
            torch.testing.assert_close(y[row, t], layer.out.weight @ joint[:3] + layer.out.bias, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(torch.cat([state.h[row], state.c[row]]), joint, rtol=1e-10, atol=1e-12)


def test_hand_set_weights_hold_parity_for_ever():
    """Input and output gates open, forget gate shut: units (odd, read 0), (even, read 1), restored at every step."""
    layer = LSTM(2, d_state=2).double()
    level = math.tanh(1.0)
    with torch.no_grad():
        for parameter in layer.cell.parameters():
            parameter.zero_()
        layer.cell.bias_ih_l0.copy_(torch.tensor([60.0, 60.0, -60.0, -60.0, -20.0, -60.0, 60.0, 60.0]))
        layer.cell.weight_ih_l0[4:6] = torch.tensor([[40.0, 0.0], [0.0, 40.0]])
        # The units sum to 0 for odd parity and to -2 levels for even.
        layer.cell.weight_hh_l0[4:6] = torch.tensor([[20.0, 20.0], [-20.0, -20.0]]) / level
    words = torch.randint(2, (3, 400), generator=torch.Generator().manual_seed(0))
    state = LSTMState(torch.full((3, 2), -0.9 * level).double(), torch.zeros(3, 2).double())
    for t in range(400):
        _, state = layer.step(torch.nn.functional.one_hot(words[:, t], 2).double(), state)
        assert ((state.h.max(-1).values > 0).long() == words[:, : t + 1].sum(-1) % 2).all()


@pytest.mark.parametrize("options", [{"d_state": 0}, {"d_state": -1}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        LSTM(4, **options)
