"""Tanh RNN against its equation."""

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.rnn import RNN, RNNState


def step(layer, x, h):
    cell = layer.cell
    return torch.tanh(cell.weight_hh_l0 @ h + cell.weight_ih_l0 @ x + cell.bias_ih_l0 + cell.bias_hh_l0)


def test_outputs_and_jacobians_follow_the_equations():
    torch.manual_seed(0)
    layer = RNN(5, d_state=3).double()
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    start = RNNState(torch.randn(2, 3, dtype=torch.float64))
    y, state = layer(x, start)
    jacobians = layer.transitions(x, start).matrix
    assert jacobians.shape == (2, 6, 1, 3, 3)
    for row in range(2):
        h = start.h[row]
        for t in range(6):
            expected = torch.autograd.functional.jacobian(lambda s, row=row, t=t: step(layer, x[row, t], s), h)
            torch.testing.assert_close(jacobians[row, t, 0], expected, rtol=1e-10, atol=1e-12)
            h = step(layer, x[row, t], h).detach()
            torch.testing.assert_close(y[row, t], layer.out.weight @ h + layer.out.bias, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(state.h[row], h, rtol=1e-10, atol=1e-12)


def test_hand_set_weights_hold_parity_for_ever():
    """Units: (odd, read 0), (even, read 1), saturated at +-1, so that errors shrink at every step."""
    layer = RNN(2, d_state=2).double()
    with torch.no_grad():
        for parameter in layer.cell.parameters():
            parameter.zero_()
        # Sum of both units is 0 for odd parity and -2 for even.
        layer.cell.weight_hh_l0.copy_(torch.tensor([[10.0, 10.0], [-10.0, -10.0]]))
        layer.cell.weight_ih_l0.copy_(torch.tensor([[20.0, 0.0], [0.0, 20.0]]))
        layer.cell.bias_ih_l0.copy_(torch.tensor([-10.0, -30.0]))
    words = torch.randint(2, (3, 400), generator=torch.Generator().manual_seed(0))
    state = RNNState(torch.full((3, 2), -0.8, dtype=torch.float64))
    for t in range(400):
        _, state = layer.step(torch.nn.functional.one_hot(words[:, t], 2).double(), state)
        assert ((state.h.max(-1).values > 0).long() == words[:, : t + 1].sum(-1) % 2).all()


@pytest.mark.parametrize("options", [{"d_state": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        RNN(4, **options)
