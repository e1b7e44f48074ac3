"""Spectra, polarization, compression and expansion on every registered layer: a result that keeps its promise, or a reason."""

from __future__ import annotations

import pytest
import torch

from statetrack.analysis.spectra import lyapunov_exponents, spectrum, word_spectrum
from statetrack.analysis.state_size import compress, expand, plan_state_size
from statetrack.errors import InvalidInputError
from statetrack.layers import layers, make_layer
from statetrack.layers.base import Layer, layer_options
from statetrack.layers.polarization import polarize

SMALL = {"d_state": 4, "n_heads": 2, "dictionary_size": 3, "d_head": 2}
SPECIAL = {"fp-rnn": {"d_state": 2, "n_iterations": 2}, "slice": {"block_size": 2}, "linoss": {"d_state": 2}}
NAMES = list(layers)


def small(name: str, **options) -> Layer:
    """A layer of width 4 in float64, away from its initial weights."""
    known = layer_options(name)
    chosen = {key: value for key, value in {**SMALL, **SPECIAL.get(name, {}), **options}.items() if key in known}
    torch.manual_seed(0)
    layer = make_layer(name, 4, **chosen).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.eval()


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_spectra(name):
    """Products and sums of eigenvalues are determinants and traces of the dense matrices."""
    layer, x = small(name), normal(1, 3, 4)
    if name == "transformer":
        with pytest.raises(InvalidInputError, match="no transition"):
            spectrum(layer, x)
        return
    dense = layer.transitions(x).to_dense().detach().to(torch.complex128)
    single, word = spectrum(layer, x), word_spectrum(layer, x)
    assert single.eigenvalues.shape == dense.shape[:-1]
    torch.testing.assert_close(single.eigenvalues.sum(-1), dense.diagonal(dim1=-2, dim2=-1).sum(-1), rtol=1e-9, atol=1e-9)
    product = dense[:, 2] @ dense[:, 1] @ dense[:, 0]
    torch.testing.assert_close(word.eigenvalues.sum(-1), product.diagonal(dim1=-2, dim2=-1).sum(-1), rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(word.eigenvalues.prod(-1), torch.linalg.det(product), rtol=1e-6, atol=1e-9)
    volume = torch.linalg.det(dense).abs().log().sum(1) / 3
    growth = lyapunov_exponents(layer.transitions(x)).sum(-1)
    alive = volume > -30  # where a determinant is 0 in exact arithmetic, its rounding says nothing
    torch.testing.assert_close(growth[alive], volume[alive], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_polarization(name):
    """Selective diagonal layers hold eigenvalues at exactly 1 and 0; the others say why they cannot."""
    layer, x = small(name), normal(2, 3, 4)
    if not layer.pinnable:
        reasons = r"not linear|no recurrence|are fixed|not diagonal|of its own"
        with pytest.raises(InvalidInputError, match=reasons):
            polarize(layer)
        return
    value = polarize(layer).transitions(x).value
    value = value.mT if layer.pins_heads else value
    assert (value[..., 0] == 1).all()
    assert (value[..., -1] == 0).all()
    assert torch.isfinite(polarize(layer)(x)[0]).all()


def test_every_selective_diagonal_layer_can_be_pinned():
    """But for the one that is pinned by construction."""
    diagonal = {
        name for name in NAMES if layers.get(name).traits.structure in ("diagonal", "scalar times identity, one per head")
    }
    assert {name for name in NAMES if layers.get(name).pinnable} == diagonal - {"polarized-mamba"}


COMPRESSED = {"lru", "s5", "s4d", "linoss", "flash-pd-ssm", "pd-ssm"}


@pytest.mark.parametrize("name", NAMES)
def test_compression(name):
    """A smaller layer whose error is stated, or the reason why there is none."""
    layer, x = small(name), normal(2, 6, 4)
    if name not in COMPRESSED:
        with pytest.raises(InvalidInputError, match="cannot be compressed in its own form"):
            compress(layer)
        return
    found = compress(layer, x=x) if name.endswith("pd-ssm") else compress(layer, 2, x=x)
    assert found.after <= found.before
    if found.bound is None:
        assert found.output_error < 1e-12
    else:
        assert found.error <= found.bound * (1 + 1e-9)


FIXED_SIZE = {"deltanet", "deltaproduct", "gated-deltanet", "gated-deltaproduct", "kda", "complex-kda", "gdn2", "rwkv7", "mamba3"}
FIXED_SIZE |= {"sd-ssm", "aussm", "fp-rnn", "transformer", "path-attention"}


@pytest.mark.parametrize("name", NAMES)
def test_expansion(name):
    """The same outputs from a larger state, and gradients for all that is new; or the reason why there is none."""
    layer, x = small(name), normal(2, 6, 4)
    if name in FIXED_SIZE:
        with pytest.raises(InvalidInputError, match="cannot be expanded"):
            expand(layer, 2)
        return
    larger = expand(layer, 2)
    torch.testing.assert_close(larger(x)[0], layer(x)[0], rtol=1e-12, atol=1e-13)
    larger(x)[0].square().sum().backward()
    grown = [p for p, q in zip(larger.parameters(), layer.parameters(), strict=True) if p.shape != q.shape]
    assert grown
    assert all(p.grad is not None and p.grad.any() for p in grown)


@pytest.mark.parametrize("name", NAMES)
def test_planning(name):
    """A size for every layer that has an option for it."""
    layer = small(name)
    if "d_state" not in layer_options(name) or not layer.traits.streams:
        with pytest.raises(InvalidInputError, match=r"d_state|cache"):
            plan_state_size(layer, 6, 10.0, timing=1e-4)
        return
    size = int(layer.options["d_state"])
    plan = plan_state_size(layer, 6, 100.0, sizes=[size, 2 * size], timing=1e-4)
    assert plan.d_state in (size, 2 * size)
    assert 0 < plan.share <= 1
    assert plan.costs[0].state_numbers <= plan.costs[1].state_numbers
