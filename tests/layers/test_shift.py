"""Shift registers against their equations, a convolution, and the algebra of the shift matrix."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.shift import Shift, shift_register

WRAPS = ["drop", "cyclic", "hold"]


def shifted(cells, wrap):
    """Cells of one register a step later, before the input enters."""
    n = len(cells)
    out = [0.0, *(cells[i] for i in range(n - 1))]
    if wrap == "cyclic":
        out[0] = cells[-1]
    elif wrap == "hold":
        out[-1] = out[-1] + cells[-1]
    return out


def reference(layer, x, wrap):
    """Outputs and last cells ``(E, N)`` for one sequence."""
    cells = [[0.0] * layer.d_state for _ in range(layer.d_model)]
    outputs = []
    for token in x:
        v = layer.in_proj.weight @ token
        y = torch.zeros(layer.d_model, dtype=x.dtype)
        for c in range(layer.d_model):
            cells[c] = shifted(cells[c], wrap)
            cells[c][0] = cells[c][0] + v[c]
            y[c] = sum(layer.C[c, n] * cells[c][n] for n in range(layer.d_state))
        outputs.append(layer.out_proj.weight @ y + layer.D * token)
    return torch.stack(outputs), torch.tensor([[float(cell) for cell in row] for row in cells], dtype=x.dtype)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("d_state", [1, 2, 3, 9])
def test_outputs_follow_the_equations(wrap, d_state):
    torch.manual_seed(0)
    layer = Shift(4, d_state=d_state, wrap=wrap).double()
    torch.nn.init.normal_(layer.D)
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, cells = reference(layer, x[row], wrap)
            torch.testing.assert_close(y[row], expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(state.h[row], cells, rtol=1e-12, atol=1e-12)


def test_dropping_registers_are_a_causal_convolution():
    torch.manual_seed(1)
    layer = Shift(5, d_state=4).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    with torch.no_grad():
        y, _ = layer(x)
        line = torch.nn.functional.pad((x @ layer.in_proj.weight.T).mT, (3, 0))
        filtered = torch.nn.functional.conv1d(line, layer.C.flip(-1).unsqueeze(1), groups=5).mT
        expected = filtered @ layer.out_proj.weight.T + layer.D * x
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


def test_dropping_registers_forget_everything_after_n_tokens():
    torch.manual_seed(2)
    layer = Shift(4, d_state=5)
    x = torch.randn(2, 12, 4)
    other = x.clone()
    other[:, :3] += 1
    with torch.no_grad():
        (y, state), (z, end) = layer(x), layer(other)
    assert torch.equal(y[:, 7:], z[:, 7:])
    assert not torch.equal(y[:, 6], z[:, 6])
    assert torch.equal(state.h, end.h)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("length", [0, 2, 6])
def test_gradients_reach_the_initial_state_where_it_is_kept(wrap, length):
    """They come back along the powers of the matrix, which for a register that drops are 0 from the fifth on."""
    layer = Shift(3, d_state=5, wrap=wrap).double()
    h = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    _, (final,) = layer(torch.randn(2, length, 3, dtype=torch.float64), layer.initial_state(2)._replace(h=h))
    cotangent = torch.randn_like(final)
    found = torch.autograd.grad(final, h, cotangent)[0]
    kept = [0.0] * 5
    for row in range(5):
        unit = [float(i == row) for i in range(5)]
        for _ in range(length):
            unit = shifted(unit, wrap)
        kept[row] = cotangent @ torch.tensor(unit, dtype=torch.float64)
    torch.testing.assert_close(found, torch.stack(kept, -1))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_powers_and_eigenvalues_of_the_matrix(n):
    drop, cyclic, hold = (shift_register(n, wrap, dtype=torch.float64) for wrap in WRAPS)
    below = torch.diag(torch.ones(n - 1, dtype=torch.float64), -1)
    assert torch.equal(drop.to_dense(), below)
    assert not torch.linalg.matrix_power(drop.to_dense(), n).any()
    assert torch.linalg.matrix_power(drop.to_dense(), n - 1).any()
    assert not drop.eigenvalues().any()
    assert torch.equal(torch.linalg.matrix_power(cyclic.to_dense(), n), torch.eye(n, dtype=torch.float64))
    roots = torch.exp(2j * math.pi * torch.arange(n, dtype=torch.float64) / n)
    distance = (cyclic.eigenvalues().unsqueeze(-1) - roots).abs()
    assert distance.min(0).values.max() < 1e-12
    assert torch.equal(hold.to_dense().sum(0), torch.ones(n, dtype=torch.float64))
    assert sorted(hold.eigenvalues().abs().tolist()) == [0.0] * (n - 1) + [1.0]


@pytest.mark.parametrize(
    ("wrap", "places"), [("drop", [0, 1, 2, 3, None]), ("cyclic", [0, 1, 2, 3, 0]), ("hold", [0, 1, 2, 3, 3])]
)
def test_an_impulse_moves_one_cell_per_token(wrap, places):
    layer = Shift(1, d_state=4, wrap=wrap)
    with torch.no_grad():
        layer.in_proj.weight.fill_(1.0)
        state = layer.initial_state(1)
        for t, place in enumerate(places):
            _, state = layer.step(torch.full((1, 1), float(t == 0)), state)
            expected = torch.zeros(4)
            if place is not None:
                expected[place] = 1.0
            assert torch.equal(state.h[0, 0], expected)


def test_bad_options_are_refused():
    for options in ({"d_state": 0}, {"wrap": "mirror"}):
        with pytest.raises(InvalidInputError):
            Shift(4, **options)
    with pytest.raises(InvalidInputError):
        shift_register(0)
