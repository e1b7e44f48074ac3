"""Distinct inputs against a loop over the tokens."""

import pytest
import torch

from statetrack.layers.repetition import distinct_rows, every_token_alone


def test_rows_are_the_distinct_inputs():
    table = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    words = torch.randint(5, (3, 20), generator=torch.Generator().manual_seed(1))
    found = distinct_rows(table[words], 5)
    assert {tuple(row) for row in found.rows.tolist()} == {tuple(row) for row in table.tolist()}
    assert torch.equal(found.rows[found.which], table[words])


def test_gradient_of_each_row_is_shared_by_its_tokens():
    u = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [1.0, 2.0]]], requires_grad=True)
    found = distinct_rows(u, 2)
    which = int(found.which[0, 0])
    cotangent = torch.zeros(2, 2)
    cotangent[which], cotangent[1 - which] = torch.tensor([6.0, 3.0]), torch.tensor([1.0, 7.0])
    (g,) = torch.autograd.grad(found.rows, u, cotangent)
    assert torch.equal(g, torch.tensor([[[2.0, 1.0], [1.0, 7.0]], [[2.0, 1.0], [2.0, 1.0]]]))


@pytest.mark.parametrize(
    "u",
    [
        torch.randn(2, 5, 3),  # more of them than asked for
        torch.full((2, 5, 3), torch.nan),
        torch.zeros(2, 0, 3),
        # Two inputs whose keys agree in rounding.
        torch.tensor([[[1e30, 0.0], [1e30, 1e-30]]], dtype=torch.float64),
    ],
)
def test_none_where_sharing_is_no_gain_or_unsafe(u):
    assert distinct_rows(u, 4) is None


def test_zero_and_minus_zero_are_one_input():
    assert len(distinct_rows(torch.tensor([[[0.0], [-0.0]]]), 2).rows) == 1


def test_nothing_is_shared_where_every_token_stands_alone():
    u = torch.ones(1, 4, 2)
    with every_token_alone():
        assert distinct_rows(u, 2) is None
    assert len(distinct_rows(u, 2).rows) == 1
