"""PD-SSM against its equations and its theory."""

import math

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.pd_ssm import PDSSM
from statetrack.models import ModelConfig, Tagger
from statetrack.scan import scan
from statetrack.structures import ColumnOneHot, RoutedOneHot


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("n_heads", [1, 2])
def test_outputs_follow_the_equations(pd_equations, orientation, n_heads):
    torch.manual_seed(0)
    layer = PDSSM(5, d_state=4, n_heads=n_heads, dictionary_size=3, orientation=orientation).double()
    x = torch.randn(9, 5, dtype=torch.float64)
    column = orientation == "column"

    def matrix(u, h):
        weights = (layer.router.weight @ u).view(n_heads, 3)[h].exp()
        mixture = sum(weights[k] / weights.sum() * layer.scores[h, k] for k in range(3))
        p = pd_equations.selection_matrix(mixture, column)
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


def test_parameter_count_is_the_published_one():
    """E = N = 128, K = 8, hidden 2N, affine readout and skip; the published 329,984 includes a LayerNorm of 256."""
    assert sum(p.numel() for p in PDSSM(128, d_state=128, dictionary_size=8).parameters()) == 329_984 - 256


@pytest.mark.parametrize(("vocabulary", "count"), [(3, 660_739), (9, 662_281), (10, 662_538)])
def test_model_parameter_counts_are_the_published_ones(vocabulary, count):
    """Two blocks of the state-tracking models for parity, cycle navigation and modular arithmetic."""
    config = ModelConfig(d_model=128, n_layers=2, layer={"d_state": 128, "dictionary_size": 8})
    assert sum(p.numel() for p in Tagger("pd-ssm", vocabulary, vocabulary, config).parameters()) == count


@pytest.mark.parametrize("seed", range(3))
def test_any_automaton_is_emulated_without_error(emulation, seed):
    rng = np.random.default_rng(seed)
    n_states, n_letters = [(3, 2), (7, 3), (12, 5)][seed]
    table = rng.integers(n_states, size=(n_states, n_letters))
    letters = rng.integers(n_letters, size=3000)
    layer = emulation.emulator(PDSSM, table, gamma=1.01 * math.log(n_letters - 1) + 0.01)
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all()


def test_the_witness_of_near_optimality_is_emulated(emulation):
    n = 5
    table = np.array([[(i + 1) % n if i == x else i for x in range(n)] for i in range(n)])
    letters = np.random.default_rng(0).integers(n, size=3000)
    layer = emulation.emulator(PDSSM, table, gamma=3.0)
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all()


@pytest.mark.parametrize(("factor", "right"), [(1.01, True), (0.99, False)])
def test_router_must_exceed_the_threshold(emulation, factor, right):
    """The chosen weight must pass 1/2: ``gamma > ln(K - 1)``. All other letters agree on the wrong destination here."""
    n_letters = 6
    table = np.array([[0] + [1] * (n_letters - 1), [0] + [1] * (n_letters - 1)])
    layer = emulation.emulator(PDSSM, table, gamma=factor * math.log(n_letters - 1))
    letters = np.array([0, 3, 0])
    assert (emulation.emulated_states(layer, letters) == emulation.visited(table, letters)).all() == right


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0])
def test_states_obey_the_stability_bound(epsilon):
    """``||x_t||_2 <= sqrt(N) B / epsilon`` for entries of modulus at most ``1 - epsilon`` (Proposition 1)."""
    generator = torch.Generator().manual_seed(0)
    n, length, bound = 6, 400, 2.0
    index = torch.randint(n, (1, length, 1, n), generator=generator)
    index[:, 200:] = 0
    phase = torch.rand(1, length, 1, n, generator=generator, dtype=torch.float64) * 2 * math.pi
    phase[:, 200:] = 0
    value = torch.polar(torch.full_like(phase, 1 - epsilon), phase)
    b = torch.randn(1, length, 1, n, generator=generator, dtype=torch.complex128)
    b[:, 200:] = 1.0
    b = bound * b / b.norm(dim=-1, keepdim=True)
    states = scan(ColumnOneHot(index, value), b, b[:, 0]).states
    assert (states.norm(dim=-1) <= math.sqrt(n) * bound / epsilon).all()
    assert states.norm(dim=-1).max() > 0.4 * bound / epsilon


def test_orientations_agree_on_permutations():
    torch.manual_seed(1)
    options = {"d_state": 6, "dictionary_size": 4, "d_field": "real", "modulus": "unit"}
    column, row = PDSSM(5, **options).double(), PDSSM(5, orientation="row", **options).double()
    with torch.no_grad():
        column.scores.copy_(torch.nn.functional.one_hot(torch.rand(1, 4, 6).argsort(-1), 6))
        column.router.weight.mul_(100.0)
    row.load_state_dict(column.state_dict())
    x = torch.randn(2, 30, 5, dtype=torch.float64)
    torch.testing.assert_close(row(x)[0], column(x)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_gradients_equal_autograd_through_the_soft_mixture(orientation):
    """Backward replaces the hardmax of the mixture by its softmax at temperature 1."""
    torch.manual_seed(2)
    options = {"orientation": orientation, "additive_input": False, "readout": "real", "skip": False}
    layer = PDSSM(5, d_state=4, dictionary_size=3, **options).double()
    x, weight = torch.randn(2, 6, 5, dtype=torch.float64), torch.randn(2, 6, 5, dtype=torch.float64)
    (layer(x)[0] * weight).sum().backward()
    found = {name: p.grad for name, p in layer.named_parameters()}
    dim = -2 if orientation == "column" else -1
    value = layer.diagonal(x)[:, :, 0]
    h = torch.zeros(2, 4, dtype=torch.complex128)
    h[:, 0] = 1
    total = 0
    for t in range(6):
        mixture = torch.einsum("bk,kij->bij", layer.router(x[:, t]).softmax(-1), layer.scores[0])
        soft = mixture.softmax(dim)
        p = torch.zeros_like(soft).scatter(dim, mixture.argmax(dim, keepdim=True), 1.0) + soft - soft.detach()
        a = p * value[:, t].unsqueeze(dim)
        h = (a @ h.unsqueeze(-1)).squeeze(-1)
        total = total + (layer.readout.out(torch.cat([h.real, h.imag], -1)) * weight[:, t]).sum()
    expected = torch.autograd.grad(total, list(layer.parameters()))
    for (name, _), grad in zip(layer.named_parameters(), expected, strict=True):
        torch.testing.assert_close(found[name], grad, rtol=1e-9, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize(
    "options",
    [
        {"orientation": "diagonal"},
        {"dictionary_init": "zero"},
        {"dictionary_size": 0},
        {"d_hidden": 0},
        {"initial_state": "zero", "additive_input": False},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        PDSSM(4, **options)


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_sharing_selections_among_equal_inputs_changes_nothing(monkeypatch, orientation):
    torch.manual_seed(0)
    layer = PDSSM(5, d_state=4, n_heads=2, dictionary_size=3, orientation=orientation).double()
    table = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    words = torch.randint(3, (4, 11))
    cotangent = torch.randn(4, 11, 5, dtype=torch.float64)
    found = {}
    for shared in (True, False):
        if not shared:
            monkeypatch.setattr("statetrack.layers.pd_ssm.distinct_rows", lambda u, most: None)
        x = table[words]
        assert isinstance(layer._select(x, layer.diagonal(x)), RoutedOneHot) == shared
        y, state = layer(x)
        found[shared] = [y, state.h, *torch.autograd.grad((y * cotangent).sum(), [table, *layer.parameters()])]
    for one, other in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
