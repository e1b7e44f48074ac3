"""RWKV-7 against its equations."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.rwkv7 import RWKV7


def low_rank(modules, u, activation):
    down, _, up = modules
    return up.weight @ activation(down.weight @ u)


def reference(layer, x, scale=1):
    """Outputs ``(L, E)``, transition matrices ``(L, H, K, K)`` and last states for one sequence, token by token."""
    n_heads, size = layer.n_heads, layer.d_head
    last = torch.zeros(layer.d_model, dtype=x.dtype)
    s = torch.zeros(n_heads, size, size, dtype=x.dtype)
    outputs, matrices = [], []
    for u in x:
        mixed = [u + (last - u) * m for m in layer.mixing]
        for_r, for_w, for_k, for_v, for_a, for_g = mixed
        last = u
        w = torch.exp(-math.exp(-0.5) / (1 + torch.exp(-(layer.decay_bias + low_rank(layer.decay, for_w, torch.tanh)))))
        a = 1 / (1 + torch.exp(-(layer.rate_bias + low_rank(layer.rate, for_a, lambda z: z))))
        gate = low_rank(layer.gate, for_g, torch.sigmoid)
        r, k, v = layer.r_proj.weight @ for_r, layer.k_proj.weight @ for_k, layer.v_proj.weight @ for_v
        erased, added = k * layer.k_k, k * (1 + (a - 1) * layer.k_a)
        y, of_heads = [], []
        for h in range(n_heads):
            own = slice(h * size, (h + 1) * size)
            n = erased[own] / torch.sqrt((erased[own] ** 2).sum() + 1e-6)
            matrix = torch.diag(w[own]) - scale * torch.outer(a[own] * n, n)
            s = torch.cat([s[:h], (matrix @ s[h] + torch.outer(added[own], v[own]))[None], s[h + 1 :]])
            o = s[h].mT @ r[own]
            o = (o - o.mean()) / torch.sqrt(((o - o.mean()) ** 2).mean() + size * 1e-5)
            o = o * layer.norm_weight[h] + layer.norm_bias[h]
            y.append(o + (r[own] * added[own] * layer.r_k[h]).sum() * v[own])
            of_heads.append(matrix)
        outputs.append(layer.out.weight @ (torch.cat(y) * gate))
        matrices.append(torch.stack(of_heads))
    return torch.stack(outputs), torch.stack(matrices), s


def stirred(layer):
    """All parameters off their start, where the rank maps and the output are zero."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize(
    ("options", "length"), [({}, 9), ({"n_heads": 1, "d_head": 4}, 9), ({"negative_eigenvalues": True}, 9), ({}, 150)]
)
def test_outputs_follow_the_equations(options, length):
    torch.manual_seed(0)
    layer = stirred(RWKV7(5, **{"n_heads": 2, **options}).double())
    x = torch.randn(2, length, 5, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        stated = layer.transitions(x).to_dense()
        for row in range(2):
            expected, matrices, s = reference(layer, x[row], 2 if "negative_eigenvalues" in options else 1)
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-11)
            torch.testing.assert_close(stated[row], matrices, rtol=1e-11, atol=1e-12)
            torch.testing.assert_close(state.h[row], s, rtol=1e-10, atol=1e-11)
            assert torch.equal(state.last[row, 0], x[row, -1])


@pytest.mark.parametrize(("negative", "low"), [(False, math.exp(-math.exp(-0.5)) - 1), (True, math.exp(-math.exp(-0.5)) - 2)])
def test_eigenvalues_are_real_and_bounded(negative, low):
    """``Diag(w) - (c a * n) n^T`` becomes symmetric by scaling; its least eigenvalue is above ``min w - c``."""
    torch.manual_seed(1)
    layer = stirred(RWKV7(8, n_heads=2, negative_eigenvalues=negative).double())
    with torch.no_grad():
        layer.rate_bias.fill_(4.0)
        layer.decay_bias.fill_(4.0)
    values = layer.transitions(3 * torch.randn(2, 100, 8, dtype=torch.float64)).eigenvalues()
    assert values.imag.abs().max() < 1e-7
    assert low < values.real.min() < low + 0.1
    assert values.real.max() < 1


def test_published_initialisation():
    torch.manual_seed(2)
    layer = RWKV7(128, n_heads=2)
    assert layer.d_head == 64
    n = torch.arange(128)
    for m, power in zip(layer.mixing, (0.2, 0.9, 0.7, 0.7, 0.9, 0.2), strict=True):
        torch.testing.assert_close(m.detach(), 1 - (n / 128) ** power)
    # The first and the last channel of a head are the ends of the zigzag, whose middle is nearly 0.
    assert layer.decay_bias[0].item() == pytest.approx(-6 + 0.5 - 2.5)
    assert layer.decay_bias[127].item() == pytest.approx(0.5 + 2.5)
    assert layer.decay_bias[32].item() == pytest.approx(-6 + 6 * 32 / 127 + 0.5, abs=1e-2)
    assert layer.rate_bias[0].item() == pytest.approx(-0.19 - 0.3 - 0.2)
    assert layer.rate_bias[127].item() == pytest.approx(-0.19 + 0.3 + 0.2)
    assert layer.k_k[0].item() == pytest.approx(0.76)
    assert layer.k_k[127].item() == pytest.approx(0.66)
    assert (layer.k_a == 1.02).all()
    assert (layer.r_k == -0.04).all()
    assert (layer.norm_weight == 1).all()
    assert (layer.out.weight == 0).all()
    for projection, gain in ((layer.r_proj, 1.0), (layer.v_proj, 1.0), (layer.k_proj, 0.1)):
        torch.testing.assert_close(projection.weight @ projection.weight.mT, gain**2 * torch.eye(128), atol=1e-5, rtol=0)
    assert [m[0].out_features for m in (layer.decay, layer.rate, layer.gate)] == [32, 32, 64]
    assert all((m[0].weight == 0).all() for m in (layer.decay, layer.rate, layer.gate))
    assert (RWKV7(64)(torch.randn(1, 3, 64))[0] == 0).all()


def test_one_reflection_keeps_the_written_value_up_to_its_sign():
    """w = 1, a = 1, c = 2: letter 1 erases along the key of the value and turns it around, letter 0 along another."""
    layer = RWKV7(4, n_heads=1, d_head=2, negative_eigenvalues=True)
    with torch.no_grad():
        for parameter in (*layer.k_proj.parameters(), *layer.v_proj.parameters(), layer.mixing):
            parameter.zero_()
        layer.decay_bias.fill_(-200.0)
        layer.rate_bias.fill_(200.0)
        layer.k_k.fill_(1.0)
        layer.k_proj.weight[1, 0] = layer.k_proj.weight[0, 1] = layer.k_proj.weight[0, 2] = 1000.0
        layer.v_proj.weight[0, 2] = 1.0
    bits = torch.randint(2, (3000,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        _, start = layer(nn.functional.one_hot(torch.tensor([[2]]), 4).float())
        state, ones = start, 0
        for part in bits.split(500):
            _, state = layer(nn.functional.one_hot(part, 4).float().unsqueeze(0), state)
            ones += int(part.sum())
            torch.testing.assert_close(state.h, (-1) ** ones * start.h, rtol=1e-4, atol=0)


def test_biases_of_the_transition_stay_float32():
    layer = RWKV7(6, n_heads=2).half()
    assert layer.decay_bias.dtype == layer.rate_bias.dtype == torch.float32
    assert layer.k_proj.weight.dtype == torch.float16


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        RWKV7(4, **options)
