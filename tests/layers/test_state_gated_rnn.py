"""State-gated RNN against its equations."""

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.state_gated_rnn import StateGatedRNN, StateGatedRNNState


def step(layer, x, h):
    n = layer.d_state
    u, u_bias, w = layer.input.weight, layer.input.bias, layer.recurrent.weight
    z = 1 / (1 + torch.exp(-(u[n:] @ x + w[n:] @ h + u_bias[n:])))
    return z * h + (1 - z) * (w[:n] @ h + u[:n] @ x + u_bias[:n])


def test_outputs_and_jacobians_follow_the_equations():
    torch.manual_seed(0)
    layer = StateGatedRNN(5, d_state=3).double()
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    start = StateGatedRNNState(torch.randn(2, 3, dtype=torch.float64))
    y, state = layer(x, start)
    jacobians = layer.transitions(x, start).matrix
    assert jacobians.shape == (2, 6, 1, 3, 3)
    packed, ends = layer(
        x.flatten(0, 1).unsqueeze(0), StateGatedRNNState(start.h[[0, 0, 1]]), cu_seqlens=torch.tensor([0, 0, 6, 12])
    )
    assert torch.equal(ends.h[0], start.h[0])
    for row in range(2):
        h = start.h[row]
        for t in range(6):
            expected = torch.autograd.functional.jacobian(lambda s, row=row, t=t: step(layer, x[row, t], s), h)
            torch.testing.assert_close(jacobians[row, t, 0], expected, rtol=1e-10, atol=1e-12)
            h = step(layer, x[row, t], h).detach()
            torch.testing.assert_close(y[row, t], layer.out.weight @ h + layer.out.bias, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(packed[0, 6 * row + t], y[row, t], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(state.h[row], h, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(ends.h[row + 1], h, rtol=1e-10, atol=1e-12)


def test_hand_set_weights_hold_parity():
    """Read 0: the gate keeps the state. Read 1: it takes the candidate ``-h``."""
    layer = StateGatedRNN(2, d_state=1).double()
    with torch.no_grad():
        layer.input.weight.copy_(torch.tensor([[0.0, 0.0], [60.0, -60.0]]))
        layer.input.bias.zero_()
        layer.recurrent.weight.copy_(torch.tensor([[-1.0], [0.0]]))
    words = torch.randint(2, (3, 400), generator=torch.Generator().manual_seed(0))
    state = StateGatedRNNState(torch.ones(3, 1, dtype=torch.float64))
    with torch.no_grad():
        for t in range(400):
            _, state = layer.step(torch.nn.functional.one_hot(words[:, t], 2).double(), state)
            odd = words[:, : t + 1].sum(-1) % 2
            torch.testing.assert_close(state.h[:, 0], 1 - 2 * odd.double(), rtol=0, atol=1e-12)


def test_the_gate_reads_the_state():
    torch.manual_seed(1)
    layer = StateGatedRNN(3, d_state=4).double()
    x = torch.randn(1, 1, 3, dtype=torch.float64).expand(2, 1, 3)
    gates = layer.transitions(x, StateGatedRNNState(torch.randn(2, 4, dtype=torch.float64))).matrix
    assert not torch.allclose(gates[0], gates[1])


def test_weights_start_within_the_usual_bound_and_recurrent_ones_stay_float32():
    torch.manual_seed(2)
    layer = StateGatedRNN(8, d_state=64)
    for weight in (layer.input.weight, layer.input.bias, layer.recurrent.weight):
        assert 0.1 < weight.abs().max() <= 1 / 8
    assert layer.half().recurrent.weight.dtype == torch.float32
    assert layer.input.weight.dtype == torch.float16


@pytest.mark.parametrize("options", [{"d_state": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        StateGatedRNN(4, **options)
