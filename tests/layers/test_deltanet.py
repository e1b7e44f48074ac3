"""DeltaNet against its equations, and what its reflections can track."""

import math

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.deltanet import DeltaNet

OPTIONS = [
    {},
    {"n_heads": 1, "d_head": 4, "expand_v": 2},
    {"short_conv": False, "output_gate": True},
    {"negative_eigenvalues": True, "backend": "reference"},
    {"additive_input": False, "negative_eigenvalues": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = DeltaNet(5, **{"n_heads": 2, **options}).double()
    scale = 2 if options.get("negative_eigenvalues") else 1
    x = 4 * torch.randn(2, 9, 5, dtype=torch.float64)
    rule = delta_equations.rule(layer, scale)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, states = delta_equations.run_householder(layer, x[row], scale)
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-10, atol=1e-12)
        _, k, v, _ = layer.heads(x, layer.heads.initial_state(2), None)
        dense = layer.transitions(x).to_dense()
        for t, u in enumerate(x[1]):
            for h in range(layer.n_heads):
                torch.testing.assert_close(dense[1, t, h], rule(u, h, k[1, t, h], v[1, t, h])[0], rtol=1e-12, atol=1e-12)


def test_many_chunks_follow_the_equations(delta_equations):
    torch.manual_seed(1)
    layer = DeltaNet(5, n_heads=2, negative_eigenvalues=True).double()
    x = 4 * torch.randn(1, 150, 5, dtype=torch.float64)
    with torch.no_grad():
        expected, states = delta_equations.run_householder(layer, x[0], 2)
        y, state = layer(x)
    torch.testing.assert_close(y[0], expected, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(state.h[0], states[-1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(("negative", "low"), [(False, 0.0), (True, -1.0)])
def test_all_eigenvalues_but_one_are_one(negative, low):
    torch.manual_seed(2)
    layer = DeltaNet(8, n_heads=2, negative_eigenvalues=negative).double()
    with torch.no_grad():
        layer.strength.b_proj.weight.mul_(100)
    values = layer.transitions(3 * torch.randn(2, 50, 8, dtype=torch.float64)).eigenvalues()
    assert values.imag.abs().max() < 1e-9
    ordered = values.real.sort(-1).values
    torch.testing.assert_close(ordered[..., 1:], torch.ones_like(ordered[..., 1:]))
    assert low < ordered.min() < low + 0.1
    assert ordered.max() < 1 + 1e-12


def test_published_initialisation():
    torch.manual_seed(3)
    layer = DeltaNet(64)
    assert (layer.n_heads, layer.d_head, layer.d_value) == (4, 16, 16)
    linears = {name: m for name, m in layer.named_modules() if isinstance(m, torch.nn.Linear)}
    assert set(linears) == {"heads.q_proj", "heads.k_proj", "heads.v_proj", "strength.b_proj", "readout.out"}
    for linear in linears.values():
        assert linear.bias is None
        bound = 2**-2.5 * math.sqrt(6 / sum(linear.weight.shape))
        assert 0.9 * bound < linear.weight.abs().max() <= bound
        assert linear.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert layer.heads.conv.bias is None
    assert layer.heads.conv.weight.shape == (3 * 64, 4)
    assert (layer.readout.norm.weight == 1).all()


def test_parity_is_exact_with_negative_eigenvalues():
    """One dimension, ``S <- (1 - beta) S`` with beta 0 or 2."""
    layer = DeltaNet(2, n_heads=1, d_head=1, short_conv=False, negative_eigenvalues=True, additive_input=False)
    with torch.no_grad():
        for linear in (layer.heads.q_proj, layer.heads.k_proj):
            linear.weight.fill_(1e4)
        layer.strength.b_proj.weight.copy_(torch.tensor([[-1e4, 1e4]]))
        layer.readout.out.weight.fill_(1.0)
    bits = np.random.default_rng(0).integers(2, size=5000)
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(torch.as_tensor(bits), 2).float().unsqueeze(0))
    assert np.array_equal((y[0, :, 0] < 0).numpy(), np.cumsum(bits) % 2 == 1)


def test_two_swaps_generate_s3_exactly(reflections):
    """Mirrors of a triangle at 0 and 60 degrees, and the identity: all six elements, 3,000 letters."""
    layer = DeltaNet(3, n_heads=1, d_head=2, short_conv=False, negative_eigenvalues=True, additive_input=False).double()
    reflections.set(layer, reflections.keys([[0.0], [0.0], [math.pi / 3]]), torch.tensor([[0.0], [2.0], [2.0]]))
    letters = np.random.default_rng(1).integers(3, size=3000)
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(torch.as_tensor(letters), 3).double().unsqueeze(0))
    word = [[("turn", 0), ("mirror", 0), ("mirror", 1)][letter] for letter in letters]
    expected = reflections.dihedral_reads(3, word)
    np.testing.assert_allclose(y[0, :, :2].numpy(), expected, atol=1e-4)
    assert len(np.unique(expected.round(6), axis=0)) == 6


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}, {"expand_v": 0}, {"backend": "tree"}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        DeltaNet(4, **options)(torch.zeros(1, 2, 4))
