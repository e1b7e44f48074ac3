"""SLiCE against its equations, and exact automata."""

import math
from itertools import permutations

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.slice import SLiCE, SLiCEState

KINDS = {
    "diagonal": {},
    "block-diagonal": {"block_size": 2},
    "diagonal-dense": {"block_size": 3},
    "dplr": {"rank": 2},
    "walsh-hadamard": {},
}


def vector_field(layer, kind, x, rank=2):
    """``A(x)`` dense, as the sum over channels of fixed matrices (or of the factors of the low-rank kind)."""
    n, b, dt = 4, layer.field.block_size, layer.field.time_step
    channels = [torch.ones((), dtype=x.dtype), *x]
    weights = [layer.field.linear.bias, *layer.field.linear.weight.mT]
    if kind == "walsh-hadamard":
        weights = [torch.tanh(w) for w in weights]
    total = dt * sum(channel * w for channel, w in zip(channels, weights, strict=True))
    a = torch.zeros(n, n, dtype=x.dtype)
    if kind == "diagonal":
        return torch.diag(total)
    if kind == "block-diagonal":
        for j in range(n // b):
            a[j * b : j * b + b, j * b : j * b + b] = total[j * b * b : (j + 1) * b * b].view(b, b)
    elif kind == "diagonal-dense":
        a[: n - b, : n - b] = torch.diag(total[: n - b])
        a[n - b :, n - b :] = total[n - b :].view(b, b)
    elif kind == "dplr":
        d, u, v = total.split([n, n * rank, n * rank])
        a = torch.diag(d) + u.view(n, rank) @ v.view(n, rank).mT
    else:
        for i in range(n):
            for j in range(n):
                a[i, j] = (-1) ** bin(i & j).count("1") * total[j] / math.sqrt(n)
    return a


def reference(layer, kind, x):
    h = layer.start.weight @ x[0] + layer.start.bias
    outputs = [layer.out.weight @ h + layer.out.bias]
    for u in x[1:]:
        h = h + vector_field(layer, kind, u) @ h
        outputs.append(layer.out.weight @ h + layer.out.bias)
    return torch.stack(outputs), h


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_follow_the_equations(kind):
    torch.manual_seed(0)
    layer = SLiCE(5, d_state=4, kind=kind, time_step=0.3, **KINDS[kind]).double()
    x = torch.randn(2, 8, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, h = reference(layer, kind, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row, 0], h, rtol=1e-10, atol=1e-12)
            dense = layer.transitions(x).to_dense()[row, 3, 0]
            torch.testing.assert_close(
                dense, torch.eye(4).double() + vector_field(layer, kind, x[row, 3]), rtol=1e-10, atol=1e-12
            )
    assert state.started.all()


def test_only_the_first_token_of_a_document_sets_the_state():
    torch.manual_seed(1)
    layer = SLiCE(3, d_state=4).double()
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    start = SLiCEState(torch.randn(3, 1, 4, dtype=torch.float64), torch.tensor([True, False, False]))
    start.h[1:] = 0
    _, state = layer(x, start, cu_seqlens=torch.tensor([0, 1, 1, 5]))
    assert state.started.tolist() == [True, False, True]
    with torch.no_grad():
        continued = start.h[0, 0] + vector_field(layer, "block-diagonal", x[0, 0]) @ start.h[0, 0]
    torch.testing.assert_close(state.h[0, 0], continued, rtol=1e-10, atol=1e-12)
    assert (state.h[1] == 0).all()
    torch.testing.assert_close(state.h[2], layer(x[:, 1:])[1].h[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_published_initialisation(kind):
    torch.manual_seed(2)
    b = 16
    layer = SLiCE(100, d_state=64, kind=kind, block_size=b, rank=4, init_std=0.25)
    weight, bias = layer.field.linear.weight, layer.field.linear.bias
    low_rank = [(64, 0.25), (256, 0.125), (256, 0.125)]
    dense = [(48, 0.25), (256, 0.25 / 4)]
    parts = {"diagonal": [(64, 0.25)], "block-diagonal": [(64 * b, 0.25 / 4)], "diagonal-dense": dense, "dplr": low_rank}
    begin = 0
    for size, std in parts.get(kind, [(64, 0.25)]):
        assert weight[begin : begin + size].std().item() == pytest.approx(std, rel=0.05)
        assert bias[begin : begin + size].std().item() == pytest.approx(std, rel=0.5)
        begin += size
    assert begin == len(weight)
    assert layer.start.weight.std().item() == pytest.approx(0.25, rel=0.05)
    assert layer.start.bias.std().item() == pytest.approx(0.25, rel=0.5)
    assert layer.field.time_step == 1 / 40


def emulator(permutation_of, dt):
    """Weights for one-hot tokens: ``I + A(token)`` permutes the states, and the first token acts on state 0."""
    n_letters, n = len(permutation_of), len(permutation_of[0])
    layer = SLiCE(n_letters, d_state=n, block_size=n, time_step=dt).double()
    with torch.no_grad():
        layer.field.linear.bias.zero_()
        layer.start.weight.zero_()
        layer.start.bias.zero_()
        for letter, images in enumerate(permutation_of):
            matrix = torch.zeros(n, n, dtype=torch.float64)
            matrix[list(images), range(n)] = 1
            layer.field.linear.weight[:, letter] = ((matrix - torch.eye(n)) / dt).flatten()
            layer.start.weight[images[0], letter] = 1
    return layer


def test_one_block_holds_a_group_that_no_diagonal_layer_can():
    """A_5 on five items, one block of size 5, a word of 3,000 letters: the image of item 0 is exact at every position."""
    even = [p for p in permutations(range(5)) if sum(a > b for i, a in enumerate(p) for b in p[i:]) % 2 == 0]
    letters = [even[i] for i in (7, 23, 41)]
    layer = emulator(letters, dt=0.25)
    word = torch.randint(3, (3000,), generator=torch.Generator().manual_seed(0)).tolist()
    x = torch.nn.functional.one_hot(torch.tensor(word), 3).double().unsqueeze(0)
    item, visited = 0, []
    for letter in word:
        item = letters[letter][item]
        visited.append(item)
    with torch.no_grad():
        layer.out.weight.zero_()
        layer.out.weight[:3] = torch.eye(5, dtype=torch.float64)[:3]
        layer.out.bias.zero_()
        y, state = layer(x)
    expected = torch.nn.functional.one_hot(torch.tensor(visited), 5).double()
    assert torch.equal(y[0], expected[:, :3])
    assert torch.equal(state.h[0, 0], expected[-1])


def test_a_real_diagonal_flips_signs():
    """Parity with the diagonal kind: 1 + A = -1 for one letter and 1 for the other."""
    layer = SLiCE(2, d_state=1, kind="diagonal", time_step=1.0).double()
    with torch.no_grad():
        layer.field.linear.bias.zero_()
        layer.field.linear.weight.copy_(torch.tensor([[0.0, -2.0]]))
        layer.start.weight.copy_(torch.tensor([[1.0, -1.0]]))
        layer.start.bias.zero_()
    word = torch.randint(2, (1, 2000), generator=torch.Generator().manual_seed(1))
    _, state = layer(torch.nn.functional.one_hot(word, 2).double())
    assert state.h.item() == (-1.0) ** word.sum().item()


def test_the_field_stays_float32():
    layer = SLiCE(4, d_state=4).half()
    assert layer.field.linear.weight.dtype == layer.field.linear.bias.dtype == torch.float32
    assert layer.out.weight.dtype == torch.float16


@pytest.mark.parametrize(
    "options",
    [
        {"d_state": 0},
        {"block_size": 3},
        {"kind": "sparse"},
        {"kind": "diagonal-dense", "block_size": 4},
        {"kind": "walsh-hadamard", "d_state": 6},
        {"time_step": 0.0},
        {"init_std": 0.0},
        {"rank": 0},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        SLiCE(4, **{"d_state": 4, **options})
