"""SD-SSM against its equations, and exact automata."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.sd_ssm import SDSSM


def transition(layer, x):
    logits = layer.router.weight @ x + layer.router.bias
    weights = torch.exp(logits) / torch.exp(logits).sum()
    mixture = sum(w * a for w, a in zip(weights, layer.dictionary, strict=True))
    n = layer.d_state
    columns = [mixture[:, j] / (mixture[:, j].abs() ** layer.power).sum() ** (1 / layer.power) for j in range(n)]
    return torch.stack(columns, dim=1)


def reference(layer, x):
    h = layer.initial_state(1).h[0, 0].detach()
    outputs = []
    for u in x:
        h = transition(layer, u) @ h
        if layer.input is not None:
            h = h + layer.input.weight @ u
        centred = h - h.mean()
        normed = centred / (centred.square().mean() + 1e-5).sqrt() * layer.norm.weight + layer.norm.bias
        outputs.append(layer.out.weight @ normed + layer.out.bias)
    return torch.stack(outputs), h


@pytest.mark.parametrize("options", [{}, {"power": 1.4}, {"additive_input": False, "initial_state": "first"}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = SDSSM(5, d_state=4, dictionary_size=3, **options).double()
    x = torch.randn(2, 8, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, h = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row, 0], h, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(layer.transitions(x).matrix[row, 2, 0], transition(layer, x[row, 2]))


def test_columns_have_unit_norm():
    torch.manual_seed(1)
    matrix = SDSSM(5, d_state=6, power=1.3).transitions(3 * torch.randn(2, 4, 5)).matrix
    norms = (matrix.abs() ** 1.3).sum(-2) ** (1 / 1.3)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_published_initialisation():
    torch.manual_seed(2)
    layer = SDSSM(5)
    assert layer.dictionary.shape == (8, 64, 64)
    bound = math.sqrt(6 / 128)
    assert 0.99 * bound < layer.dictionary.abs().max() <= bound
    assert layer.dictionary.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert (layer.initial_state(2).h == 0).all()


def test_initial_states():
    torch.manual_seed(3)
    first, learned = (SDSSM(3, d_state=2, initial_state=kind) for kind in ("first", "learned"))
    assert first.initial_state(2).h.tolist() == learned.initial_state(2).h.tolist() == [[[1, 0]]] * 2
    assert not any(p is first.start for p in first.parameters())
    assert any(p is learned.start for p in learned.parameters())


def test_any_automaton_is_a_dictionary_of_its_letters():
    """A random automaton of 5 states and 4 letters, one-hot tokens, a saturated router: 2,000 letters without an error."""
    generator = torch.Generator().manual_seed(4)
    table = torch.randint(5, (5, 4), generator=generator)
    layer = SDSSM(4, d_state=5, dictionary_size=4, additive_input=False, initial_state="first").double()
    with torch.no_grad():
        layer.router.weight.copy_(1000 * torch.eye(4))
        layer.router.bias.zero_()
        layer.dictionary.zero_()
        for letter in range(4):
            layer.dictionary[letter, table[:, letter], torch.arange(5)] = 1
    word = torch.randint(4, (2000,), generator=generator)
    state = 0
    for letter in word.tolist():
        state = int(table[state, letter])
    with torch.no_grad():
        _, last = layer(torch.nn.functional.one_hot(word, 4).double().unsqueeze(0))
    assert torch.equal(last.h[0, 0], torch.nn.functional.one_hot(torch.tensor(state), 5).double())


def test_the_dictionary_stays_float32():
    layer = SDSSM(4, d_state=3).half()
    assert layer.dictionary.dtype == layer.router.weight.dtype == layer.router.bias.dtype == torch.float32
    assert layer.out.weight.dtype == torch.float16


@pytest.mark.parametrize(
    "options", [{"d_state": 0}, {"power": 1.0}, {"dictionary_size": 0}, {"additive_input": False}, {"initial_state": "one"}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        SDSSM(4, **options)
