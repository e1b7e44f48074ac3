"""Phases that are picked: values against exact roots, gradients against the softmax mean, and no drift over long words."""

import numpy as np
import pytest
import torch

from statetrack import make_layer
from statetrack.errors import InvalidInputError
from statetrack.layers.phase_choice import choose_root, harden, roots_of_unity


def test_values_are_roots_of_the_largest_logit_to_the_last_bit():
    logits = torch.randn(4, 7, 12, generator=torch.Generator().manual_seed(0))
    expected = np.exp(2j * np.pi * logits.argmax(-1).numpy() / 12).astype(np.complex64)
    assert np.abs(choose_root(logits).numpy() - expected).max() < 1e-7
    assert set(choose_root(logits).flatten().tolist()) <= set(roots_of_unity(12, logits).tolist())


def test_gradients_are_those_of_the_mean_root():
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    weight = torch.randn(3, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))
    (choose_root(logits) * weight).real.sum().backward()
    raw = logits.detach().numpy()
    share = np.exp(4 * raw) / np.exp(4 * raw).sum(-1, keepdims=True)
    value = (np.exp(2j * np.pi * np.arange(5) / 5) * weight.numpy()[:, None]).real
    expected = 4 * share * (value - (share * value).sum(-1, keepdims=True))
    assert np.abs(logits.grad.numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("name", ["complex-diagonal", "pd-ssm", "flash-pd-ssm"])
def test_transitions_of_modulus_one_are_finitely_many(name):
    torch.manual_seed(0)
    layer = make_layer(name, 6, d_state=3, n_heads=2, modulus="unit", phase_levels=6)
    dense = layer.transitions(torch.randn(2, 50, 6)).to_dense()
    turns = torch.angle(dense[dense.abs() > 0.5]) * 6 / (2 * torch.pi)
    assert (turns - turns.round()).abs().max() < 1e-5 and len(turns.round().unique()) > 1


def test_a_long_product_stays_where_integers_put_it():
    torch.manual_seed(0)
    layer = make_layer(
        "complex-diagonal", 4, d_state=5, modulus="unit", phase_levels=12, additive_input=False, initial_state="first"
    )
    with torch.no_grad():
        letters = torch.randn(3, 4)
        word = torch.randint(3, (1, 200_000), generator=torch.Generator().manual_seed(3))
        steps = layer.transitions(letters[None]).to_dense().diagonal(dim1=-2, dim2=-1)[0, :, 0, 0].angle() * 12 / (2 * torch.pi)
        count = torch.bincount(word[0], minlength=3)
        _, state = layer(letters[word[0]][None])
    expected = 2 * np.pi * (int((steps.round().long() * count).sum()) % 12) / 12
    assert abs(complex(state.h[0, 0, 0]) - np.exp(1j * expected)) < 1e-3


@pytest.mark.parametrize(
    ("progress", "sharpness", "picked"), [(0.0, 4, 0), (0.375, 4 * 30**0.5, 0), (0.75, 120, 0), (0.9, 120, 0.6), (1.0, 1, 1)]
)
def test_mean_roots_sharpen_and_then_give_way_to_picks(progress, sharpness, picked):
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) / 10
    share = np.exp(sharpness * logits.numpy())
    share /= share.sum(-1, keepdims=True)
    roots = np.exp(2j * np.pi * np.arange(5) / 5)
    expected = (1 - picked) * (share * roots).sum(-1) + picked * roots[logits.numpy().argmax(-1)]
    assert np.abs(harden(logits, torch.tensor(progress, dtype=torch.float64)).numpy() - expected).max() < 1e-12


def test_an_annealed_layer_ends_with_picks():
    torch.manual_seed(0)
    layer = make_layer("complex-diagonal", 6, d_state=3, modulus="annealed", phase_levels=6)
    x = torch.randn(2, 9, 6)
    assert layer.anneals and not make_layer("complex-diagonal", 6, modulus="unit", phase_levels=6).anneals
    assert layer.transitions(x).to_dense().abs().max() < 1
    layer.set_progress(1.0)
    modulus = layer.transitions(x).to_dense().abs()
    assert ((modulus - 1).abs().minimum(modulus) < 1e-6).all()


def test_a_million_equal_turns_end_where_integers_put_them():
    """The same root over and over is the worst that rounding can meet: its error adds up instead of averaging out."""
    torch.manual_seed(0)
    options = {"d_state": 3, "phase_levels": 12, "modulus": "unit", "additive_input": False, "initial_state": "learned"}
    layer = make_layer("complex-diagonal", 4, n_heads=2, **options)
    letter, length = torch.randn(4), 1_000_003
    with torch.no_grad():
        layer.start.normal_()
        step = layer.transitions(letter[None, None]).to_dense().diagonal(dim1=-2, dim2=-1)[0, 0]
        _, state = layer(letter.expand(1, length, 4))
    turns = torch.round(step.angle() * 12 / (2 * torch.pi)).long() * length % 12
    exact = torch.view_as_complex(layer.start.detach()).numpy() * np.exp(2j * np.pi * turns.numpy() / 12)
    assert np.abs(state.h[0].numpy() - exact).max() < 1e-6


def test_settled_states_are_those_of_exact_arithmetic_also_in_packed_documents():
    torch.manual_seed(1)
    options = {"d_state": 2, "phase_levels": 5, "modulus": "unit", "additive_input": False, "initial_state": "learned"}
    layer = make_layer("complex-diagonal", 4, **options).double()
    x, offsets = torch.randn(1, 9, 4, dtype=torch.float64), torch.tensor([0, 2, 2, 9])
    carried = layer.initial_state(3).h * torch.tensor([1.0, 2.0, -0.5j])[:, None, None]
    steps = layer.transitions(x).to_dense().diagonal(dim1=-2, dim2=-1)[0]
    _, state = layer(x, type(layer.initial_state(1))(carried), cu_seqlens=offsets)
    for document, (start, end) in enumerate([(0, 2), (2, 2), (2, 9)]):
        expected = carried[document] * steps[start:end].prod(0)
        torch.testing.assert_close(state.h[document], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["complex-diagonal", "pd-ssm", "flash-pd-ssm", "aussm", "simple-aussm"])
def test_picked_phases_compile(name):
    torch.manual_seed(0)
    layer, x = make_layer(name, 6, phase_levels=5).eval(), torch.randn(2, 4, 6)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], layer(x)[0])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"phase_levels": 1}, "at least 2"),
        ({"phase_levels": 4, "d_field": "real"}, "complex"),
    ],
)
def test_levels_that_cannot_be_are_refused(options, told):
    with pytest.raises(InvalidInputError, match=told):
        make_layer("complex-diagonal", 4, **options)
