"""All structures keep the laws of the contract; what is special to one-hot and compressed ones against plain loops."""

import itertools

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot
from statetrack.testing import check_structure

ONE_HOT = [ColumnOneHot, RowOneHot]


@pytest.mark.parametrize("structure", [Diagonal, Dense, BlockDiagonal, ColumnOneHot, RowOneHot])
def test_every_structure_keeps_the_laws(structure):
    check_structure(structure)


def test_one_hot_axes_are_what_they_are_called():
    index, value = torch.tensor([1, 1, 0]), torch.tensor([2.0, 3.0, 5.0])
    assert ColumnOneHot(index, value).to_dense().tolist() == [[0, 0, 5], [2, 3, 0], [0, 0, 0]]
    assert RowOneHot(index, value).to_dense().tolist() == [[0, 2, 0], [0, 3, 0], [5, 0, 0]]


def test_columns_merge_states_and_rows_cannot():
    """No row-one-hot matrix sends e0 and e1 to e1 and keeps e2; the column form does it with the map [1, 1, 2]."""
    wanted = torch.tensor([[0.0, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert torch.equal(ColumnOneHot(torch.tensor([1, 1, 2]), torch.ones(3)).to_dense(), wanted)
    for index in itertools.product(range(3), repeat=3):
        assert not torch.equal(RowOneHot(torch.tensor(index), torch.ones(3)).to_dense(), wanted)


@pytest.mark.parametrize("structure", ONE_HOT)
def test_adjoints_are_of_the_other_form(structure):
    generator = torch.Generator().manual_seed(0)
    a = structure(torch.randint(5, (4, 5), generator=generator), torch.randn(4, 5, generator=generator, dtype=torch.complex128))
    adjoint = a.adjoint()
    assert type(adjoint) is next(s for s in ONE_HOT if s is not structure)
    assert torch.equal(adjoint.to_dense(), a.to_dense().mH)


@pytest.mark.parametrize("structure", ONE_HOT)
def test_orientations_agree_on_permutations(structure):
    """``rho = pi^-1`` and ``D_row = D_col[rho]`` describe the same matrix."""
    generator = torch.Generator().manual_seed(1)
    pi = torch.rand(3, 6, generator=generator).argsort(-1)
    rho, d = pi.argsort(-1), torch.randn(3, 6, generator=generator)
    assert torch.equal(ColumnOneHot(pi, d).to_dense(), RowOneHot(rho, d.gather(-1, rho)).to_dense())


@pytest.mark.parametrize("structure", ONE_HOT)
def test_long_products_of_permutations_are_exact(structure):
    """10,000 signed permutations multiplied one by one, against integers in numpy."""
    rng = np.random.default_rng(0)
    n, length = 7, 10_000
    maps = rng.permuted(np.tile(np.arange(n), (length, 1)), axis=1)
    signs = rng.choice([-1, 1], size=(length, n))
    index, value = torch.from_numpy(maps), torch.from_numpy(signs).double()
    product = structure.identity(n, dtype=torch.float64)
    expected_map, expected_sign = np.arange(n), np.ones(n, dtype=np.int64)
    for t in range(length):
        product = structure(index[t], value[t]).compose(product)
        if structure is ColumnOneHot:
            expected_sign = signs[t][expected_map] * expected_sign
            expected_map = maps[t][expected_map]
        else:
            expected_sign = signs[t] * expected_sign[maps[t]]
            expected_map = expected_map[maps[t]]
    assert (product.index.numpy() == expected_map).all()
    assert (product.value.numpy() == expected_sign).all()


def test_spectra_of_known_automata():
    """A cycle of length 4 has the fourth roots of unity; a reset has 1 and zeros; a nilpotent shift only zeros."""
    cycle = ColumnOneHot(torch.tensor([1, 2, 3, 0]), torch.ones(4, dtype=torch.float64)).eigenvalues()
    assert sorted((round(z.real, 12), round(z.imag, 12)) for z in cycle.tolist()) == [(-1, 0), (0, -1), (0, 1), (1, 0)]
    reset = ColumnOneHot(torch.zeros(4, dtype=torch.long), torch.ones(4)).eigenvalues()
    assert sorted(reset.abs().tolist()) == [0, 0, 0, 1]
    nilpotent = ColumnOneHot(torch.tensor([1, 2, 3, 3]), torch.tensor([1.0, 1.0, 1.0, 0.0])).eigenvalues()
    assert nilpotent.abs().max() == 0


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_routed_maps_expand_to_their_dictionary_entry(orientation):
    generator = torch.Generator().manual_seed(2)
    heads, entries, n = 2, 3, 4
    dictionary = torch.randint(n, (heads, entries, n), generator=generator)
    route = torch.randint(entries, (2, 5, heads), generator=generator)
    value = torch.randn(2, 5, heads, n, generator=generator)
    routed = RoutedOneHot(dictionary.to(torch.int16), route, value, orientation)
    dense = routed.expand().to_dense()
    for b, t, h in itertools.product(range(2), range(5), range(heads)):
        expected = torch.zeros(n, n)
        for q in range(n):
            target = int(dictionary[h, route[b, t, h], q])
            expected[(target, q) if orientation == "column" else (q, target)] = value[b, t, h, q]
        assert torch.equal(dense[b, t, h], expected)
    assert torch.equal(routed[:, 2:4].expand().to_dense(), dense[:, 2:4])
    assert routed.state_size == n


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_mixed_maps_expand_to_the_argmax_of_the_mixture(orientation):
    generator = torch.Generator().manual_seed(3)
    heads, entries, n = 2, 3, 4
    scores = torch.randn(heads, entries, n, n, generator=generator, dtype=torch.float64)
    mix = torch.rand(2, 5, heads, entries, generator=generator, dtype=torch.float64)
    value = torch.randn(2, 5, heads, n, generator=generator, dtype=torch.float64)
    mixed = MixedOneHot(scores, mix, value, orientation)
    dense = mixed.expand().to_dense()
    for b, t, h in itertools.product(range(2), range(5), range(heads)):
        mixture = sum(mix[b, t, h, k] * scores[h, k] for k in range(entries)).numpy()
        expected = np.zeros((n, n))
        for q in range(n):
            if orientation == "column":
                expected[mixture[:, q].argmax(), q] = value[b, t, h, q]
            else:
                expected[q, mixture[q].argmax()] = value[b, t, h, q]
        assert (dense[b, t, h].numpy() == expected).all()
    assert torch.equal(mixed[:, 1:3].expand().to_dense(), dense[:, 1:3])


def test_block_sizes_must_divide():
    assert BlockDiagonal.identity(6, (2,), block_size=3).blocks.shape == (2, 2, 3, 3)
    with pytest.raises(InvalidInputError, match="does not divide"):
        BlockDiagonal.identity(5, block_size=2)
