"""First, last and next tokens against plain indexing, document by document."""

import itertools

import pytest
import torch

from statetrack.layers.borders import first_tokens, last_tokens, next_tokens

X = torch.arange(1.0, 25).view(1, 8, 3)


@pytest.mark.parametrize("offsets", [[0, 8], [0, 0, 3, 4, 4, 8, 8]])
def test_packed_documents(offsets):
    borders = torch.tensor(offsets)
    before = -torch.ones(len(offsets) - 1, 3)
    first, last, following = (
        first_tokens(X, borders),
        last_tokens(X, before, borders),
        next_tokens(X, borders),
    )
    for s, (a, b) in enumerate(itertools.pairwise(offsets)):
        assert torch.equal(first[s], X[0, a] if b > a else torch.zeros(3))
        assert torch.equal(last[s], X[0, b - 1] if b > a else before[s])
        for t in range(a, b):
            assert torch.equal(following[0, t], X[0, t + 1] if t + 1 < b else torch.zeros(3))


def test_rows():
    x = X.view(2, 4, 3)
    assert torch.equal(first_tokens(x, None), x[:, 0])
    assert torch.equal(last_tokens(x, torch.zeros(2, 3), None), x[:, 3])
    assert torch.equal(next_tokens(x, None)[:, :3], x[:, 1:])
    assert not next_tokens(x, None)[:, 3].any()
