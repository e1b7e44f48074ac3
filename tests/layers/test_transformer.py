"""Causal attention with rotary positions against its equation."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.transformer import Transformer


def reference(layer, x):
    """Attention of one sequence written with loops; a rotation of pairs is a product with a complex phase."""
    n_heads, p = layer.n_heads, layer.d_head
    q, k, v = (layer.qkv.weight @ x.mT).mT.view(len(x), 3, n_heads, p).unbind(1)
    half = p // 2
    frequency = torch.tensor([layer.rope_base ** (-2 * i / p) for i in range(half)], dtype=torch.float64)

    def turned(vector, t):
        z = torch.complex(vector[:half], vector[half:]) * torch.exp(1j * t * frequency)
        return torch.cat([z.real, z.imag])

    outputs = []
    for t in range(len(x)):
        heads = []
        for h in range(n_heads):
            query = turned(q[t, h], t)
            scores = torch.stack([turned(k[s, h], s) @ query / math.sqrt(p) for s in range(t + 1)])
            weights = scores.exp() / scores.exp().sum()
            heads.append(sum(weights[s] * v[s, h] for s in range(t + 1)))
        outputs.append(layer.out.weight @ torch.cat(heads))
    return torch.stack(outputs)


@pytest.mark.parametrize("options", [{"n_heads": 1}, {"n_heads": 2}, {"n_heads": 3, "d_head": 6, "rope_base": 50.0}])
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = Transformer(5, **options).double()
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    y, cache = layer(x)
    with torch.no_grad():
        for row in range(2):
            torch.testing.assert_close(y[row], reference(layer, x[row]), rtol=1e-10, atol=1e-12)
    assert cache.k.shape == cache.v.shape == (2, 7, layer.n_heads, layer.d_head)
    assert cache.length.tolist() == [7, 7]


def test_caches_of_different_lengths_continue_side_by_side():
    torch.manual_seed(1)
    layer = Transformer(6, n_heads=2).double()
    x = torch.randn(1, 7, 6, dtype=torch.float64)
    more = torch.randn(3, 2, 6, dtype=torch.float64)
    _, cache = layer(x, cu_seqlens=torch.tensor([0, 2, 2, 7]))
    assert cache.length.tolist() == [2, 0, 5]
    assert cache.k.shape[1] == 5
    assert (cache.k[0, 2:] == 0).all()
    y, _ = layer(more, cache)
    with torch.no_grad():
        for row, (a, b) in enumerate([(0, 2), (2, 2), (2, 7)]):
            expected = reference(layer, torch.cat([x[0, a:b], more[row]]))[b - a :]
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("d_model", "n_heads", "d_head"), [(8, 2, 4), (7, 2, 4), (5, 4, 2), (1, 1, 2)])
def test_head_width_is_rounded_up_to_even(d_model, n_heads, d_head):
    assert Transformer(d_model, n_heads=n_heads).d_head == d_head


def test_it_has_no_transition_matrices():
    with pytest.raises(InvalidInputError, match="no recurrence of fixed size"):
        Transformer(4).transitions(torch.randn(1, 3, 4))


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 3}, {"d_head": 0}, {"rope_base": 1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        Transformer(4, **options)
