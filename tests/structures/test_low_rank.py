"""Diagonal-plus-low-rank matrices: laws, products of reflections, and scans over them against dense matrices."""

import math

import pytest
import torch

from statetrack.scan import scan
from statetrack.structures import DiagonalPlusLowRank
from statetrack.testing import check_structure


def householder(key, beta):
    key = torch.as_tensor(key, dtype=torch.float64)
    key = key / key.norm(dim=-1, keepdim=True)
    return DiagonalPlusLowRank(torch.ones_like(key), -beta * key.unsqueeze(-1), key.unsqueeze(-1))


def test_the_laws_hold():
    check_structure(DiagonalPlusLowRank)


def test_entries_are_those_of_the_formula():
    g = torch.Generator().manual_seed(0)
    d, u, w = (torch.randn(*shape, generator=g, dtype=torch.complex128) for shape in ((3,), (3, 2), (3, 2)))
    dense = DiagonalPlusLowRank(d, u, w).to_dense()
    for i in range(3):
        for j in range(3):
            expected = d[i] * (i == j) + sum(u[i, r] * w[j, r].conj() for r in range(2))
            torch.testing.assert_close(dense[i, j], expected)


def test_one_reflection_has_real_eigenvalues():
    values = householder([1.0, -2.0, 0.5, 3.0], 1.7).eigenvalues()
    assert sorted(values.real.tolist()) == pytest.approx([-0.7, 1, 1, 1])
    assert values.imag.abs().max() < 1e-12


def test_two_reflections_rotate_by_twice_the_angle_of_their_keys():
    angle = 0.4
    rotation = householder([math.cos(angle), math.sin(angle), 0.0], 2.0).compose(householder([1.0, 0.0, 0.0], 2.0))
    c, s = math.cos(2 * angle), math.sin(2 * angle)
    expected = torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(rotation.to_dense(), expected)
    assert sorted(rotation.eigenvalues().angle().tolist()) == pytest.approx([-2 * angle, 0, 2 * angle])


def test_the_rank_of_a_product_stays_below_the_size():
    g = torch.Generator().manual_seed(1)
    factors = [householder(torch.randn(4, generator=g), 1.9) for _ in range(9)]
    product, dense = factors[0], factors[0].to_dense()
    for later in factors[1:]:
        product, dense = later.compose(product), later.to_dense() @ dense
        assert product.rank <= 4
        torch.testing.assert_close(product.to_dense(), dense)
    assert DiagonalPlusLowRank.identity(4, (2,)).rank == 0


@pytest.mark.parametrize("backend", ["auto", "reference", "tree"])
@pytest.mark.parametrize("packed", [False, True])
def test_scans_equal_dense_products(backend, packed):
    g = torch.Generator().manual_seed(2)
    batch = (1 if packed else 2, 9, 2)
    d, u, w = (0.7 * torch.randn(*batch, *shape, generator=g, dtype=torch.float64) for shape in ((3,), (3, 2), (3, 2)))
    b = torch.randn(*batch, 3, generator=g, dtype=torch.float64)
    offsets = [0, 4, 4, 9] if packed else None
    h0 = torch.randn(3 if packed else 2, 2, 3, generator=g, dtype=torch.float64)
    cu_seqlens = torch.tensor(offsets) if packed else None
    states, final = scan(DiagonalPlusLowRank(d, u, w), b, h0, cu_seqlens=cu_seqlens, backend=backend)
    dense = torch.diag_embed(d) + u @ w.mT
    h = h0[:1] if packed else h0
    for t in range(9):
        if packed and t == 4:
            torch.testing.assert_close(final[:1], h)
            torch.testing.assert_close(final[1], h0[1])
            h = h0[2:]
        h = (dense[:, t] @ h.unsqueeze(-1)).squeeze(-1) + b[:, t]
        torch.testing.assert_close(states[:, t], h)
    torch.testing.assert_close(final[-1:] if packed else final, h)
