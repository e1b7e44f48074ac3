"""PaTH attention against its equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.path_attention import PaTHAttention


def unit(vector):
    return vector / torch.sqrt((vector * vector).sum() + 1e-6)


def householder(layer, window, u, h):
    """``I - beta w w^T`` of head ``h``; ``window`` holds the last ``d_conv`` projections to w."""
    p = layer.d_head
    mixed = (window * layer.conv.weight.mT).sum(0)
    w = unit((mixed * torch.sigmoid(mixed))[h * p : (h + 1) * p])
    beta = 2 / (1 + torch.exp(-(layer.beta.weight[h] @ u + layer.beta.bias[h])))
    return torch.eye(p, dtype=u.dtype) - beta * torch.outer(w, w)


def reference(layer, x):
    """Outputs of one sequence and its matrices ``(L, H, P, P)``: every token moves all keys before it."""
    n_heads, p = layer.n_heads, layer.d_head
    q, k, v = (layer.qkv.weight @ x.mT).mT.view(len(x), 3, n_heads, p).unbind(1)
    down, up = layer.w_proj
    projected = (up.weight @ down.weight @ x.mT).mT
    width = layer.conv.weight.shape[1]
    line = torch.cat([torch.zeros(width - 1, n_heads * p, dtype=x.dtype), projected])
    matrices = torch.stack(
        [torch.stack([householder(layer, line[t : t + width], x[t], h) for h in range(n_heads)]) for t in range(len(x))]
    )
    outputs, keys, bias = [], torch.zeros(0, n_heads, p, dtype=x.dtype), torch.zeros(0, n_heads, dtype=x.dtype)
    for t, u in enumerate(x):
        keys = torch.cat([torch.einsum("hij,shj->shi", matrices[t], keys), k[t : t + 1]])
        if layer.forget is not None:
            bias = bias - torch.log1p(torch.exp(-(layer.forget.weight @ u + layer.forget.bias)))
        bias = torch.cat([bias, torch.zeros(1, n_heads, dtype=x.dtype)])
        scores = torch.stack([(keys[s] * q[t]).sum(-1) + bias[s] for s in range(t + 1)]) / math.sqrt(p)
        weights = scores.softmax(0).unsqueeze(-1)
        outputs.append(layer.out.weight @ (weights * v[: t + 1]).sum(0).flatten())
    return torch.stack(outputs), matrices


OPTIONS = [{"n_heads": 1}, {"n_heads": 2, "forget_gate": True}, {"n_heads": 3, "d_head": 4, "d_conv": 1, "w_rank": 2}]


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options):
    torch.manual_seed(0)
    layer = PaTHAttention(5, **options).double()
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        y, cache = layer(x)
        for row in range(2):
            expected, _ = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-11, atol=1e-12)
    assert cache.k.shape == cache.v.shape == (2, 9, layer.n_heads, layer.d_head)
    assert cache.length.tolist() == [9, 9]


@pytest.mark.parametrize("forget_gate", [False, True])
def test_chunks_and_cache_agree_with_the_equations(forget_gate):
    """100 tokens: two chunks; then once more in pieces that continue a cache."""
    torch.manual_seed(1)
    layer = PaTHAttention(4, n_heads=2, forget_gate=forget_gate).double()
    x = torch.randn(1, 100, 4, dtype=torch.float64)
    with torch.no_grad():
        expected, _ = reference(layer, x[0])
        y, cache = layer(x)
        torch.testing.assert_close(y[0], expected, rtol=1e-10, atol=1e-12)
        parts, state = [], None
        for a, b in [(0, 70), (70, 71), (71, 100)]:
            part, state = layer(x[:, a:b], state)
            parts.append(part)
        torch.testing.assert_close(torch.cat(parts, 1), y, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(state.k, cache.k, rtol=1e-10, atol=1e-12)


def test_cached_keys_are_moved_by_the_transitions_of_later_tokens():
    torch.manual_seed(2)
    layer = PaTHAttention(5, n_heads=2).double()
    x = torch.randn(1, 8, 5, dtype=torch.float64)
    with torch.no_grad():
        _, before = layer(x[:, :3])
        _, after = layer(x[:, 3:], before)
        stated = layer.transitions(x[:, 3:], before).to_dense()[0]
        _, matrices = reference(layer, x[0])
    torch.testing.assert_close(stated, matrices[3:], rtol=1e-12, atol=1e-12)
    for s in range(3):
        for h in range(2):
            key = before.k[0, s, h]
            for matrix in matrices[3:, h]:
                key = matrix @ key
            torch.testing.assert_close(after.k[0, s, h], key, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("forget_gate", [False, True])
def test_caches_of_different_lengths_continue_side_by_side(forget_gate):
    torch.manual_seed(3)
    layer = PaTHAttention(6, n_heads=2, forget_gate=forget_gate).double()
    x = torch.randn(1, 7, 6, dtype=torch.float64)
    more = torch.randn(3, 2, 6, dtype=torch.float64)
    with torch.no_grad():
        _, cache = layer(x, cu_seqlens=torch.tensor([0, 2, 2, 7]))
        assert cache.length.tolist() == [2, 0, 5]
        assert cache.k.shape[1] == 5
        assert all((field[0, 2:] == 0).all() for field in (cache.k, cache.v, cache.log_forget))
        y, _ = layer(more, cache)
        for row, (a, b) in enumerate([(0, 2), (2, 2), (2, 7)]):
            expected, _ = reference(layer, torch.cat([x[0, a:b], more[row]]))
            torch.testing.assert_close(y[row], expected[b - a :], rtol=1e-10, atol=1e-12)


def test_eigenvalues_are_ones_and_one_minus_beta():
    torch.manual_seed(4)
    layer = PaTHAttention(6, n_heads=2).double()
    values = layer.transitions(3 * torch.randn(2, 20, 6, dtype=torch.float64)).eigenvalues()
    assert values.imag.abs().max() < 1e-12
    ordered = values.real.sort(-1).values
    assert ((ordered[..., 0] > -1) & (ordered[..., 0] < 1)).all()
    assert (ordered[..., 0] < 0).any()
    torch.testing.assert_close(ordered[..., 1:], torch.ones_like(ordered[..., 1:]))


# silu(RISE) = -silu(FALL), the least value of SiLU with its sign changed: the two ends of the difference of two coordinates.
RISE, FALL = 0.45511541646541154, -1.2784645427610738


def swap_tracker(n):
    """One layer that follows ``n`` objects. Letters: objects 0..n-1, to be given once and in order, then swaps (i, i + 1).

    The query reads place 0. Dimension ``n`` of a head tells objects from swaps, whose weight in the softmax is 0 in float32.
    """
    letters = 2 * n - 1
    layer = PaTHAttention(letters + n, n_heads=1, d_head=n + 1, d_conv=1, w_rank=letters)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.conv.weight.fill_(1.0)
        layer.beta.bias.fill_(-200.0)
        layer.beta.weight[0, n:letters] = 400.0
        q, k, v = layer.qkv.weight.view(3, n + 1, letters + n).unbind(0)
        q[0, :letters] = q[n, :letters] = 1.0
        k[:n, :n] = 200 * torch.eye(n)
        k[n, n:letters] = -2000.0
        v[:n, :n] = torch.eye(n)
        layer.w_proj[0].weight[:, :letters] = torch.eye(letters)
        for i in range(n - 1):
            layer.w_proj[1].weight[i, n + i], layer.w_proj[1].weight[i + 1, n + i] = RISE, FALL
        layer.out.weight[letters:, :n] = torch.eye(n)
    return layer, letters


@pytest.mark.parametrize(("n", "length"), [(2, 3000), (5, 1500)])
def test_one_layer_follows_swaps(n, length):
    """``n = 2`` is parity, ``n = 5`` the swaps of five objects."""
    layer, letters = swap_tracker(n)
    swaps = torch.randint(n - 1, (length,), generator=torch.Generator().manual_seed(5)).tolist()
    places, expected = list(range(n)), []
    for i in swaps:
        places[i], places[i + 1] = places[i + 1], places[i]
        expected.append(places[0])
    word = torch.tensor(list(range(n)) + [n + i for i in swaps])
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(word, layer.d_model).float().unsqueeze(0))
    seen = y[0, n:, letters:]
    assert seen.argmax(-1).tolist() == expected
    assert len(set(expected)) == n
    assert seen.max(-1).values.min() > 0.999


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}, {"d_conv": 0}, {"w_rank": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        PaTHAttention(4, **options)
