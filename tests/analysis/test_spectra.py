"""Spectra against dense eigenvalues of NumPy, closed forms and characteristic polynomials."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from statetrack.analysis.spectra import lyapunov_exponents, product_spectrum, spectrum, transition_spectrum, word_spectrum
from statetrack.errors import InvalidInputError
from statetrack.layers import make_layer
from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, DiagonalPlusLowRank, RowOneHot


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def one_hot(kind, length, n, seed=0, dtype=torch.complex128):
    maps = torch.randint(0, n, (1, length, 1, n), generator=torch.Generator().manual_seed(seed))
    return kind(maps, normal(1, length, 1, n, seed=seed, dtype=dtype))


def dense_product(structure):
    """The product of the dense matrices, in NumPy."""
    matrices = structure.to_dense()[0, :, 0].numpy()
    product = np.eye(matrices.shape[-1])
    for matrix in matrices:
        product = matrix @ product
    return product


def assert_same_values(found, expected, tol=1e-10):
    """Two multisets of complex numbers, matched nearest first."""
    found, expected = list(np.asarray(found).ravel()), list(np.asarray(expected).ravel())
    assert len(found) == len(expected)
    for value in sorted(expected, key=abs, reverse=True):
        nearest = min(found, key=lambda z, value=value: abs(z - value))
        assert abs(nearest - value) <= tol * max(1.0, abs(value)), (value, nearest)
        found.remove(nearest)


def characteristic(values, z):
    return np.prod(z - np.asarray(values))


STRUCTURES = {
    "diagonal": Diagonal(normal(1, 5, 1, 4, dtype=torch.complex128)),
    "column": one_hot(ColumnOneHot, 5, 6, seed=3),
    "row": one_hot(RowOneHot, 5, 6, seed=4),
    "dense": Dense(normal(1, 5, 1, 4, 4)),
    "blocks": BlockDiagonal(normal(1, 5, 1, 3, 2, 2)),
    "low rank": DiagonalPlusLowRank(normal(1, 5, 1, 5), normal(1, 5, 1, 5, 2, seed=2), normal(1, 5, 1, 5, 2, seed=3)),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_products_have_the_characteristic_polynomial_of_dense_products(name):
    """Which holds for defective matrices too, whose eigenvalues a dense solver does not find."""
    found = product_spectrum(STRUCTURES[name])
    product = dense_product(STRUCTURES[name])
    values = found.eigenvalues[0, 0].numpy()
    scale = max(1.0, np.abs(product).max())
    for z in scale * np.exp(1j * (0.3 + np.arange(len(values) + 1))):
        expected = np.linalg.det(z * np.eye(len(product)) - product)
        assert abs(characteristic(values, z) - expected) < 1e-9 * scale ** len(values) * 10
    assert found.length == 5


@pytest.mark.parametrize("name", ["diagonal", "dense", "blocks", "low rank"])
def test_single_and_product_eigenvalues_are_those_of_numpy(name):
    structure = STRUCTURES[name]
    assert_same_values(product_spectrum(structure).eigenvalues[0, 0], np.linalg.eigvals(dense_product(structure)), 1e-9)
    for t in range(5):
        expected = np.linalg.eigvals(structure.to_dense()[0, t, 0].numpy())
        assert_same_values(transition_spectrum(structure).eigenvalues[0, t, 0], expected)


def test_pd_products_agree_with_numpy_on_what_is_not_zero():
    for seed in range(40):
        for kind in (ColumnOneHot, RowOneHot):
            structure = one_hot(kind, 3, 7, seed=seed)
            values = product_spectrum(structure).eigenvalues[0, 0].numpy()
            live = values[np.abs(values) > 1e-3]
            dense = np.linalg.eigvals(dense_product(structure))
            assert_same_values(live, sorted(dense, key=abs, reverse=True)[: len(live)], 1e-9)


def test_known_functional_graph():
    pi = torch.tensor([1, 2, 0, 0, 5, 4]).view(1, 1, 1, 6)
    d = torch.tensor([0.5, 2, 1, 0.3, -1, 1], dtype=torch.float64).view(1, 1, 1, 6)
    found = product_spectrum(ColumnOneHot(pi, d))
    roots = [np.exp(2j * np.pi * k / 3) for k in range(3)]
    assert_same_values(found.eigenvalues[0, 0], [*roots, 1j, -1j, 0], 1e-14)
    shares = found.shares()
    assert (shares.zero, shares.unit, shares.complex) == pytest.approx((1 / 6, 5 / 6, 4 / 6))


def test_a_chain_of_zeros_stays_zero():
    """A dense solver shows a defective zero of multiplicity 16 at a modulus of about eps^(1/16) once entries are rounded."""
    chain = ColumnOneHot(torch.tensor([*range(1, 16), 0]), torch.tensor([1.0] * 15 + [0.0], dtype=torch.float64))
    chain = chain.map_batch(lambda t, _: t.expand(1, 3, 1, 16))
    assert product_spectrum(chain).eigenvalues.abs().max() == 0
    assert transition_spectrum(chain).shares().zero == 1


def test_long_products_do_not_underflow():
    length = 1200
    decay = torch.full((1, length, 1, 2), 0.5, dtype=torch.float64)
    decay[..., 1] = -1.0
    pd = ColumnOneHot(torch.tensor([1, 0]).expand(1, length, 1, 2), decay)
    for structure in (
        Diagonal(decay),
        pd,
        Dense(torch.diag_embed(decay)),
        BlockDiagonal(torch.diag_embed(decay)[..., None, :, :]),
    ):
        logs = product_spectrum(structure).log_modulus[0, 0].sort().values
        if structure is pd:  # every state passes both entries in turn
            torch.testing.assert_close(logs, torch.full((2,), length / 2 * math.log(0.5), dtype=torch.float64))
        else:
            assert logs[1].item() == pytest.approx(0)
    found = product_spectrum(Diagonal(decay))
    torch.testing.assert_close(found.rates[0, 0], torch.tensor([0.5, 1.0], dtype=torch.float64))
    assert found.eigenvalues[0, 0, 1] == 1  # an even number of sign changes


def test_random_maps_have_the_expected_number_of_cycle_states():
    n, trials = 64, 300
    maps = torch.randint(0, n, (trials, 1, 1, n), generator=torch.Generator().manual_seed(5))
    live = (product_spectrum(ColumnOneHot(maps, torch.ones(trials, 1, 1, n))).log_modulus > -1).sum(-1).double().mean()
    assert float(live) == pytest.approx(math.sqrt(math.pi * n / 2) - 1 / 3, abs=0.7)


def test_householder_factors():
    k = normal(1, 2, 1, 6)
    k = k / k.norm(dim=-1, keepdim=True)
    reflections = DiagonalPlusLowRank(torch.ones_like(k), -2 * k.unsqueeze(-1), k.unsqueeze(-1))
    single = transition_spectrum(reflections)
    assert_same_values(single.eigenvalues[0, 0, 0], [1] * 5 + [-1], 1e-12)
    assert single.shares().negative == pytest.approx(1 / 6)
    angle = 2 * math.acos(min(1.0, abs(float(k[0, 0, 0] @ k[0, 1, 0]))))
    turned = product_spectrum(reflections).eigenvalues[0, 0]
    assert_same_values(turned, [1] * 4 + [np.exp(1j * angle), np.exp(-1j * angle)], 1e-7)


def test_layers_show_what_their_equations_say():
    torch.manual_seed(0)
    x = normal(2, 6, 4)
    lru = make_layer("lru", 4, d_state=3)
    with torch.no_grad():
        lam = torch.exp(torch.complex(-lru.nu_log.double().exp(), lru.theta_log.double().exp()))
    found = word_spectrum(lru, x, first=2, last=5)
    torch.testing.assert_close(found.eigenvalues, (lam**3).expand(2, 1, 3), rtol=1e-6, atol=1e-9)
    delta = spectrum(make_layer("deltanet", 4, n_heads=1), x)
    assert delta.of == "DiagonalPlusLowRank"
    assert delta.shares(1e-9).unit == pytest.approx(3 / 4)
    assert delta.shares().complex == 0
    with pytest.raises(InvalidInputError, match="first"):
        word_spectrum(lru, x, first=5, last=9)
    with pytest.raises(InvalidInputError, match="no transition"):
        spectrum(make_layer("transformer", 4, n_heads=1), x)


def test_lyapunov_exponents():
    vectors = torch.linalg.qr(normal(4, 4)).Q + 0.2 * normal(4, 4, seed=2)
    values = torch.tensor([1.0, 0.8, -0.5, 0.2], dtype=torch.float64)
    matrix = vectors @ torch.diag(values) @ torch.linalg.inv(vectors)
    found = lyapunov_exponents(Dense(matrix.expand(1, 400, 1, 4, 4)))
    torch.testing.assert_close(found[0, 0], values.abs().log(), rtol=0, atol=0.03)  # the start fades as 1 / length
    turns = torch.linalg.qr(normal(1, 30, 1, 5, 5)).Q
    assert lyapunov_exponents(Dense(turns)).abs().max() < 1e-14
    lost = ColumnOneHot(torch.tensor([1, 0, 0]), torch.ones(3, dtype=torch.float64)).map_batch(lambda t, _: t.expand(1, 9, 1, 3))
    assert lyapunov_exponents(lost)[0, 0, 2] == -math.inf
    gates = normal(1, 7, 1, 3).sigmoid()
    expected = gates.log().mean(1).sort(-1, descending=True).values
    torch.testing.assert_close(lyapunov_exponents(Diagonal(gates)), expected)
