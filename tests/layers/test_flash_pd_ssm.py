"""Flash PD-SSM against its equations and its theory."""

import math

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers import make_layer
from statetrack.layers.dictionary import initial_dictionary
from statetrack.layers.flash_pd_ssm import FlashPDSSM


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("n_heads", [1, 2])
def test_outputs_follow_the_equations(pd_equations, orientation, n_heads):
    torch.manual_seed(0)
    layer = FlashPDSSM(5, d_state=4, n_heads=n_heads, dictionary_size=3, orientation=orientation).double()
    x = torch.randn(9, 5, dtype=torch.float64)
    column = orientation == "column"

    def matrix(u, h):
        logits = (layer.router.weight @ u).view(n_heads, 3)[h]
        p = pd_equations.selection_matrix(layer.scores[h, int(logits.argmax())], column)
        d = torch.diag(pd_equations.diagonal(layer, u)[h])
        return p @ d if column else d @ p

    with torch.no_grad():
        expected, last = pd_equations.run(layer, x, matrix)
    y, state = layer(x.unsqueeze(0))
    torch.testing.assert_close(y[0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.h[0], last, rtol=1e-12, atol=1e-12)
    dense = layer.transitions(x.unsqueeze(0)).to_dense()
    for t, u in enumerate(x):
        for h in range(n_heads):
            torch.testing.assert_close(dense[0, t, h], matrix(u, h), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_any_automaton_is_emulated_without_error(emulation, seed):
    rng = np.random.default_rng(seed)
    n_states, n_letters = [(3, 2), (7, 3), (12, 5), (20, 8)][seed]
    table = rng.integers(n_states, size=(n_states, n_letters))
    letters = rng.integers(n_letters, size=3000)
    layer = emulation.emulator(FlashPDSSM, table, gamma=0.01)
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all()


def test_the_witness_of_near_optimality_is_emulated(emulation):
    """Inputs name states; the state advances when it is named. It merges states, and no smaller state encodes it uniquely."""
    n = 6
    table = np.array([[(i + 1) % n if i == x else i for x in range(n)] for i in range(n)])
    letters = np.random.default_rng(0).integers(n, size=3000)
    layer = emulation.emulator(FlashPDSSM, table, gamma=1.0)
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all()


def test_the_row_form_cannot_merge_states(emulation):
    """With the same scores for ``reset`` the row form copies one state to both places, so the code is lost."""
    table = np.array([[0, 1], [0, 1]])
    letters = np.array([1, 0, 0, 1])
    layer = emulation.emulator(FlashPDSSM, table, gamma=1.0)
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all()
    layer = emulation.emulator(FlashPDSSM, table, 1.0, orientation="row")
    dense = layer.transitions(torch.eye(2).unsqueeze(0)).to_dense()[0, :, 0]
    assert (dense.sum(-1) == 1).all()
    assert not torch.equal(dense[0], torch.tensor([[1.0, 1.0], [0.0, 0.0]]))


def test_orientations_agree_on_permutations():
    torch.manual_seed(1)
    column = FlashPDSSM(5, d_state=6, dictionary_size=4, d_field="real", modulus="unit", dictionary_init="permutation").double()
    row = FlashPDSSM(5, d_state=6, dictionary_size=4, d_field="real", modulus="unit", orientation="row").double()
    with torch.no_grad():
        column.scores.copy_(torch.nn.functional.one_hot(torch.rand(1, 4, 6).argsort(-1), 6))
    row.load_state_dict(column.state_dict())
    x = torch.randn(2, 30, 5, dtype=torch.float64)
    torch.testing.assert_close(row(x)[0], column(x)[0], rtol=1e-12, atol=1e-12)


def test_unit_modulus_never_grows_the_one_norm():
    torch.manual_seed(2)
    layer = FlashPDSSM(5, d_state=8, dictionary_size=4, modulus="unit", additive_input=False).double()
    state = layer.initial_state(3)
    norm = state.h.abs().sum(-1)
    for u in torch.randn(200, 3, 5, dtype=torch.float64):
        _, state = layer.step(u, state)
        after = state.h.abs().sum(-1)
        assert (after <= norm * (1 + 1e-12)).all()
        norm = after


@pytest.mark.parametrize("credit", ["full", "active"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_gradients_equal_autograd_through_straight_through_matrices(credit, temperature):
    """``P_t = sum_k STE(kappa_t)_k STE(M_k)``; active credit multiplies what comes back by the hard choice."""
    torch.manual_seed(3)
    layer = FlashPDSSM(
        5, d_state=4, dictionary_size=3, ste=credit, temperature=temperature, additive_input=False, readout="real", skip=False
    ).double()
    x, weight = torch.randn(2, 7, 5, dtype=torch.float64), torch.randn(2, 7, 5, dtype=torch.float64)
    (layer(x)[0] * weight).sum().backward()
    found = {name: p.grad for name, p in layer.named_parameters()}

    def hard(scores, dim):
        soft = torch.softmax(scores / temperature, dim)
        one_hot = torch.zeros_like(soft).scatter(dim, scores.argmax(dim, keepdim=True), 1.0)
        passed = one_hot + soft - soft.detach()
        return passed * one_hot if credit == "active" else passed

    selection, value = hard(layer.scores[0], -2), layer.diagonal(x)[:, :, 0]
    h = torch.zeros(2, 4, dtype=torch.complex128)
    h[:, 0] = 1
    total = 0
    for t in range(7):
        routing = hard(layer.router(x[:, t]), -1)
        p = torch.einsum("bk,kij->bij", routing, selection).to(h.dtype)
        h = (p @ (value[:, t] * h).unsqueeze(-1)).squeeze(-1)
        total = total + (layer.readout.out(torch.cat([h.real, h.imag], -1)) * weight[:, t]).sum()
    expected = torch.autograd.grad(total, [p for _, p in layer.named_parameters()])
    for (name, _), grad in zip(layer.named_parameters(), expected, strict=True):
        torch.testing.assert_close(found[name], grad, rtol=1e-9, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


def test_temperature_falls_geometrically():
    layer = FlashPDSSM(4, temperature=1.0, temperature_end=0.1)
    for progress, expected in ((0.0, 1.0), (0.5, math.sqrt(0.1)), (1.0, 0.1)):
        layer.set_progress(progress)
        assert layer.temperature == pytest.approx(expected, rel=1e-6)


def test_annealed_modulus_ends_at_one():
    torch.manual_seed(4)
    layer = FlashPDSSM(4, d_state=3, modulus="annealed")
    x = torch.randn(1, 5, 4)
    start = layer.diagonal(x).abs()
    layer.set_progress(0.5)
    torch.testing.assert_close(layer.diagonal(x).abs(), start.sqrt())
    layer.set_progress(1.0)
    torch.testing.assert_close(layer.diagonal(x).abs(), torch.ones_like(start))
    assert (start < 1).all()


def test_dictionary_starts_as_asked():
    torch.manual_seed(5)
    normal = initial_dictionary(1, 6, 32, "normal", scale=9.0)
    assert normal.std().item() == pytest.approx(32**-0.5, rel=0.05)
    identity = initial_dictionary(2, 3, 16, "identity", scale=9.0).argmax(-2)
    assert (identity == torch.arange(16)).all()
    permutations = initial_dictionary(2, 3, 16, "permutation", scale=9.0).argmax(-2)
    assert (permutations.sort(-1).values == torch.arange(16)).all()
    assert not (permutations == torch.arange(16)).all(-1).any()


@pytest.mark.parametrize(
    "options",
    [
        {"orientation": "diagonal"},
        {"ste": "none"},
        {"dictionary_init": "zero"},
        {"dictionary_size": 0},
        {"temperature": 0.0},
        {"temperature_end": -1.0},
        {"d_state": 0},
        {"n_heads": 0},
        {"d_generator": "lstm"},
        {"d_field": "quaternion"},
        {"modulus": "two"},
        {"readout": "max"},
        {"initial_state": "last"},
        {"initial_state": "zero", "additive_input": False},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        FlashPDSSM(4, **options)


def test_misspelt_options_name_the_nearest():
    with pytest.raises(UnknownNameError, match="dictionary_size"):
        make_layer("flash-pd-ssm", 4, dictionry_size=3)
