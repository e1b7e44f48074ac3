"""DeltaProduct against its equations, and the dihedral groups that two reflections per token track."""

import math

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.deltanet import DeltaNet
from statetrack.layers.deltaproduct import DeltaProduct

OPTIONS = [
    {},
    {"n_householder": 1},
    {"n_householder": 3, "n_heads": 1, "d_head": 4},
    {"short_conv": False, "output_gate": False, "expand_v": 1, "backend": "reference"},
    {"negative_eigenvalues": False},
    {"additive_input": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = DeltaProduct(5, **{"n_heads": 2, **options}).double()
    scale = 2 if options.get("negative_eigenvalues", True) else 1
    x = 4 * torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, states = delta_equations.run_householder(layer, x[row], scale)
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-12)


def test_transitions_apply_the_first_key_first(delta_equations):
    torch.manual_seed(1)
    layer = DeltaProduct(5, n_heads=2, n_householder=3).double()
    x = 4 * torch.randn(1, 6, 5, dtype=torch.float64)
    rule = delta_equations.rule(layer, 2)
    with torch.no_grad():
        _, k, v, _ = layer.heads(x, layer.heads.initial_state(1), None)
        dense = layer.transitions(x).to_dense()
        for t, u in enumerate(x[0]):
            for h in range(2):
                first, second, third = (rule(u, h, k[0, 3 * t + j, h], v[0, 3 * t + j, h], j)[0] for j in range(3))
                torch.testing.assert_close(dense[0, t, h], third @ second @ first, rtol=1e-12, atol=1e-12)


def test_one_householder_is_deltanet():
    torch.manual_seed(2)
    one = DeltaProduct(6, n_heads=2, n_householder=1, expand_v=1, output_gate=False)
    delta = DeltaNet(6, n_heads=2, negative_eigenvalues=True)
    delta.load_state_dict(one.state_dict())
    x = torch.randn(2, 7, 6)
    assert torch.equal(one(x)[0], delta(x)[0])


@pytest.mark.parametrize(("n", "pairs"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_complex_pairs_are_at_most_half_the_factors(n, pairs):
    torch.manual_seed(3)
    layer = DeltaProduct(6, n_heads=1, n_householder=n).double()
    with torch.no_grad():
        layer.strength.b_proj.weight.mul_(100)
        layer.heads.k_proj.weight.mul_(20)
    values = layer.transitions(3 * torch.randn(20, 40, 6, dtype=torch.float64)).eigenvalues()
    found = (values.imag.abs() > 1e-6).sum(-1) // 2
    assert found.max() == pairs
    assert values.abs().max() < 1 + 1e-9


def test_published_defaults():
    torch.manual_seed(4)
    layer = DeltaProduct(64, n_heads=4)
    assert (layer.substeps, layer.d_head, layer.d_value) == (2, 16, 32)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {
        "heads.q_proj.weight": (64, 64),
        "heads.k_proj.weight": (128, 64),
        "heads.v_proj.weight": (256, 64),
        "heads.conv.weight": (64 + 128 + 256, 4),
        "strength.b_proj.weight": (8, 64),
        "readout.norm.weight": (32,),
        "readout.gate.weight": (128, 64),
        "readout.out.weight": (64, 128),
    }
    bound = 2**-2.5 * math.sqrt(6 / (64 + 256))
    assert 0.9 * bound < layer.heads.v_proj.weight.abs().max() <= bound
    beta = layer.strength(torch.randn(4, 8, 64))
    assert beta.shape == (4, 16, 4, 1)
    assert ((beta > 0) & (beta < 2)).all()
    assert beta.mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_dihedral_groups_are_exact(reflections, n):
    """A rotation is two mirrors at half its angle, a mirror is one: all elements of D_n, 3,000 letters."""
    halves = {j: math.pi * (j - n if 2 * j > n else j) / n for j in range(n)}
    turns = [[0.0, a] if a >= 0 else [-a, 0.0] for a in halves.values()]
    mirrors = [i for i in range(n) if 2 * i <= n]  # normals without negative entries, which silu could not make
    keys = reflections.keys([*turns, *([math.pi * i / n, 0.0] for i in mirrors)])
    strengths = torch.tensor([[2.0, 2.0]] * n + [[2.0, 0.0]] * len(mirrors))
    layer = DeltaProduct(
        len(keys), n_heads=1, d_head=2, expand_v=1, short_conv=False, output_gate=False, additive_input=False
    ).double()
    reflections.set(layer, keys, strengths)
    letters = np.random.default_rng(n).integers(len(keys), size=3000)
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(torch.as_tensor(letters), len(keys)).double().unsqueeze(0))
    meaning = [*(("turn", j) for j in halves), *(("mirror", i) for i in mirrors)]
    expected = reflections.dihedral_reads(n, [meaning[letter] for letter in letters])
    np.testing.assert_allclose(y[0, :, :2].numpy(), expected, atol=1e-4)
    assert len(np.unique(expected.round(6), axis=0)) == 2 * n


def test_bad_options_are_refused():
    with pytest.raises(InvalidInputError, match="substeps"):
        DeltaProduct(4, n_householder=0)
