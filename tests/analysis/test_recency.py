"""Operators and influences against equations written token by token, finite differences and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from statetrack.analysis.recency import (
    by_distance,
    decay_rate,
    decoding,
    hidden_attention,
    influence,
    memory_curve,
    memory_half_life,
    model_influence,
    operator,
    retention,
    rollout,
    system_operator,
)
from statetrack.errors import InvalidInputError
from statetrack.layers import make_layer
from statetrack.layers.base import Claim, Layer, Traits
from statetrack.models import ModelConfig, Tagger
from statetrack.structures import Dense, Diagonal, DiagonalPlusLowRank


def moved(layer, seed=0):
    """The layer in float64 with parameters off their initial values."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.double().parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def finite_differences(function, x, eps=1e-5):
    """``dy_t / dx_s`` of a map ``(1, L, D) -> (1, L, E)``, ``(L, E, L, D)``."""
    columns = []
    for i in range(x.numel()):
        change = torch.zeros(x.numel(), dtype=x.dtype)
        change[i] = eps
        change = change.view_as(x)
        columns.append((function(x + change) - function(x - change))[0] / (2 * eps))
    return torch.stack(columns, -1).unflatten(-1, x.shape[1:])


# -- the operator --------------------------------------------------------------------------------------------------------------


def test_mamba_contributions_follow_its_equations():
    layer, x = moved(make_layer("mamba", 3, d_state=2, d_conv=2)), normal(1, 6, 3)
    found = operator(layer, x, block=4)
    with torch.no_grad():
        v, z = layer.in_proj(x[0]).chunk(2, -1)
        window = torch.cat([torch.zeros(1, v.shape[1], dtype=v.dtype), v])
        v = window[:-1] * layer.conv.weight[:, 0] + window[1:] * layer.conv.weight[:, 1] + layer.conv.bias
        v = v * v.sigmoid()
        r, b, c = layer.x_proj(v).split([layer.dt_rank, 2, 2], -1)
        dt = torch.log1p(layer.dt_proj(r).exp())
        a = (dt.unsqueeze(-1) * -layer.A_log.exp()).exp()  # (L, C, N)
        for t in range(6):
            gate = z[t] * z[t].sigmoid()
            for s in range(t + 1):
                phi = a[s + 1 : t + 1].prod(0)
                carried = (c[t] * phi * b[s]).sum(-1) * dt[s] * v[s]  # (C,)
                own = layer.D * v[t] if s == t else 0.0
                expected = layer.out_proj.weight @ ((carried + own) * gate)
                torch.testing.assert_close(found.vectors[0, t, s], expected, rtol=1e-12, atol=1e-12)
                if s < t:
                    by_channel = (layer.out_proj.weight * carried * gate).norm(dim=0)
                    torch.testing.assert_close(found.heads[0, :, t, s], by_channel, rtol=1e-11, atol=1e-13)
    assert found.exact
    assert found.start.abs().max() == 0
    torch.testing.assert_close(found.vectors.sum(2), layer(x)[0].detach(), rtol=1e-12, atol=1e-12)


def test_delta_rule_contributions_hold_the_norm_and_remember_what_later_keys_erase():
    layer, x = moved(make_layer("deltanet", 4, n_heads=1, short_conv=False, output_gate=True)), normal(1, 7, 4)
    found = operator(layer, x)
    with torch.no_grad():
        q, k, v = (m(x[0]) for m in (layer.heads.q_proj, layer.heads.k_proj, layer.heads.v_proj))
        q, k, v = (m * m.sigmoid() for m in (q, k, v))
        q, k = (m / (m.square().sum(-1, keepdim=True) + 1e-6).sqrt() for m in (q, k))
        beta = layer.strength.b_proj(x[0]).sigmoid()
        s, states = torch.zeros(4, 4, dtype=torch.float64), []
        for t in range(7):
            s = s + beta[t] * torch.outer(k[t], v[t] - s.mT @ k[t])
            states.append(s)
        gate = layer.readout.gate.weight @ x[0].mT
        gate = (gate * gate.sigmoid()).mT
        shortcut = []
        for t in range(7):
            scale = (((states[t].mT @ q[t]) / 2).square().mean() + 1e-5).rsqrt() * layer.readout.norm.weight
            for i in range(t + 1):
                push = beta[i] * torch.outer(k[i], v[i])
                for j in range(i + 1, t + 1):
                    push = push - beta[j] * torch.outer(k[j], push.mT @ k[j])
                expected = layer.readout.out.weight @ (push.mT @ q[t] / 2 * scale * gate[t])
                torch.testing.assert_close(found.vectors[0, t, i], expected, rtol=1e-11, atol=1e-12)
                plain = layer.readout.out.weight @ (beta[i] * v[i] * (k[i] @ q[t]) / 2 * scale * gate[t])
                shortcut.append(float((plain - expected).abs().max()))
    assert max(shortcut) > 1e-3  # leaving out that later keys erase is another operator


def test_lru_contributions_hold_gelu_and_gate():
    layer, x = moved(make_layer("lru", 3, d_state=2)), normal(1, 6, 3)
    found = operator(layer, x)
    with torch.no_grad():
        lam = torch.polar((-layer.nu_log.exp()).exp(), layer.theta_log.exp())
        re, im = (x[0] @ layer.input.weight.mT).chunk(2, -1)
        drive = layer.gamma_log.exp() * torch.complex(re, im)  # (L, N)
        c = layer.readout.out.weight
        for t in range(6):
            pushed = torch.stack([lam ** (t - s) * drive[s] for s in range(t + 1)])
            parts = torch.cat([pushed.real, pushed.imag], -1) @ c.mT  # (t + 1, E)
            y = parts.sum(0) + layer.readout.skip * x[0, t]
            gelu = torch.nn.functional.gelu(y, approximate="tanh")
            value, gate = (layer.mix.linear(gelu)).chunk(2)
            for s in range(t):
                expected = layer.mix.linear.weight[:3] @ (gelu / y * parts[s]) * gate.sigmoid()
                torch.testing.assert_close(found.vectors[0, t, s], expected, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(found.vectors[0, 5].sum(0), value * gate.sigmoid())


def test_system_operator_of_the_delta_rule_and_its_wrong_shortcut():
    k = normal(1, 12, 1, 5, seed=2)
    k = k / k.norm(dim=-1, keepdim=True)
    beta, q, v = normal(1, 12, 1, 1, seed=3).sigmoid(), normal(1, 12, 1, 5, seed=4), normal(12, 3, seed=5)
    a = DiagonalPlusLowRank(torch.ones_like(k), (-beta * k).unsqueeze(-1), k.unsqueeze(-1))
    t_matrix = system_operator(a, beta * k, q)[0, 0]
    s, outputs = torch.zeros(5, 3, dtype=torch.float64), []
    for t in range(12):
        s = s + beta[0, t, 0] * torch.outer(k[0, t, 0], v[t] - s.mT @ k[0, t, 0])
        outputs.append(s.mT @ q[0, t, 0])
    torch.testing.assert_close(t_matrix @ v, torch.stack(outputs), rtol=1e-12, atol=1e-12)
    shortcut = (q[0, :, 0] @ (beta * k)[0, :, 0].mT).tril()
    assert ((t_matrix - shortcut) @ v).abs().max() > 0.1


@pytest.mark.parametrize("block", [1, 3, 64])
def test_blocks_change_nothing(block):
    layer, x = moved(make_layer("flash-pd-ssm", 4, d_state=3, dictionary_size=2)), normal(2, 7, 4)
    whole, parts = operator(layer, x, block=7), operator(layer, x, block=block, vectors=False, heads=False)
    torch.testing.assert_close(parts.sizes, whole.sizes, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(parts.start, whole.start, rtol=1e-12, atol=1e-14)
    assert parts.vectors is None and parts.heads is None
    assert whole.start.abs().max() > 1e-3  # the state starts at e_1


def test_the_layer_is_left_alone_and_half_precision_is_analysed_in_float64():
    layer = make_layer("mamba", 3, d_state=2).bfloat16()
    found = operator(layer, normal(1, 4, 3).bfloat16())
    assert found.outputs.dtype == torch.float64
    assert layer.in_proj.weight.dtype == torch.bfloat16
    assert all(p.requires_grad for p in layer.parameters())


def test_attention_falls_back_to_a_linearisation():
    layer, x = moved(make_layer("transformer", 4, n_heads=1)), normal(1, 5, 4)
    found = operator(layer, x)
    jacobian = finite_differences(lambda u: layer(u)[0].detach(), x)
    expected = torch.einsum("tesd,sd->tse", jacobian, x[0])
    before = torch.ones(5, 5, dtype=torch.bool).tril(-1)
    torch.testing.assert_close(found.vectors[0][before], expected[before], rtol=1e-6, atol=1e-8)
    assert not found.exact and found.heads is None


def test_shares_and_rollout():
    shares = [hidden_attention(moved(make_layer("gated-deltanet", 4, n_heads=2), seed=i), normal(2, 5, 4)) for i in range(2)]
    torch.testing.assert_close(shares[0].sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert not shares[0].triu(1).any()
    half = 0.5 * torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(rollout(shares), (half + 0.5 * shares[1]) @ (half + 0.5 * shares[0]))


# -- influence -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["vjp", "operator"])
@pytest.mark.parametrize("name", ["mamba", "gated-deltanet", "lru", "rnn", "mamba3"])
def test_influence_is_the_size_of_finite_differences(name, method):
    options = {"mamba": {"d_state": 2}, "mamba3": {"d_state": 4, "d_head": 3}, "gated-deltanet": {"n_heads": 1}}.get(
        name, {"d_state": 3}
    )
    layer, x = moved(make_layer(name, 3, **options)), normal(1, 5, 3)
    jacobian = finite_differences(lambda u: layer(u)[0].detach(), x)
    expected = jacobian.square().sum((1, 3)).sqrt()
    torch.testing.assert_close(influence(layer, x, method=method)[0], expected, rtol=1e-7, atol=1e-9)
    chosen = influence(layer, x, method=method, positions=[4, 1])[0]
    torch.testing.assert_close(chosen, expected[[4, 1]], rtol=1e-7, atol=1e-9)


def test_influence_is_not_an_entry_of_the_operator():
    """A scalar gate that reads its token: the derivative has a term that the operator lacks."""
    layer, x = moved(make_layer("mamba", 1, d_state=1, expand=1, d_conv=1)), normal(1, 4, 1)
    true = finite_differences(lambda u: layer(u)[0].detach(), x)[:, 0, :, 0].abs()
    found, entries = influence(layer, x)[0], operator(layer, x).sizes[0] / x[0, :, 0].abs()
    torch.testing.assert_close(found, true, rtol=1e-6, atol=1e-10)
    assert (found - entries)[2, 1].abs() > 1e-3 * found[2, 1]


def test_transitions_of_attention_are_refused():
    with pytest.raises(InvalidInputError, match="vjp"):
        influence(make_layer("path-attention", 4, n_heads=1), normal(1, 3, 4), method="operator")


def test_model_influence_probes_estimate_the_exact_norm():
    torch.manual_seed(3)
    model = Tagger("mamba", 3, 2, ModelConfig(d_model=4, n_layers=2, norm="pre", residual=True, layer={"d_state": 2}))
    tokens = torch.tensor([[0, 1, 2, 1]])
    exact = model_influence(model, tokens, probes=0)
    x = model.double().embedding(tokens).detach()

    def features(u):
        for block in model.blocks:
            u, _ = block(u, None)
        return model.norm(u).detach()

    torch.testing.assert_close(exact[0], finite_differences(features, x).square().sum((1, 3)).sqrt(), rtol=1e-6, atol=1e-9)
    guess = model_influence(model, tokens, probes=400, positions=[3])
    torch.testing.assert_close(guess[:, 0], exact[:, 3], rtol=0.15, atol=1e-6)


# -- distance ------------------------------------------------------------------------------------------------------------------


def gate_curve(a, c=0.7, b=1.3, length=12):
    d = torch.arange(length).unsqueeze(1) - torch.arange(length)
    return (c * b * a ** d.clamp(min=0).double()).tril().unsqueeze(0)


def test_constant_gate():
    a = 0.8
    curve = by_distance(gate_curve(a))
    assert curve.slope == pytest.approx(-math.log(a))
    assert curve.half_life == pytest.approx(math.log(2) / -math.log(a))
    torch.testing.assert_close(curve.mean_log.exp(), 0.91 * a ** torch.arange(12.0, dtype=torch.float64))
    assert curve.pairs.tolist() == list(range(12, 0, -1))
    assert curve.first_token_gain == pytest.approx(a**1.5)
    gates = torch.full((1, 12, 1, 1), a, dtype=torch.float64)
    assert decay_rate(Diagonal(gates)) == pytest.approx(curve.slope)  # bound and slope coincide
    assert memory_half_life(Diagonal(gates)).item() == math.ceil(math.log(2) / -math.log(a))
    # The share of the last row from at least d tokens back, by hand; rows are averaged where they reach that far.
    shares = [[a ** (2 * d) * (1 - a ** (2 * (t + 1 - d))) / (1 - a ** (2 * (t + 1))) for t in range(d, 12)] for d in range(12)]
    torch.testing.assert_close(curve.far_share, torch.tensor([sum(row) / len(row) for row in shares], dtype=torch.float64))


def test_means_are_of_logs_and_zeros_are_counted():
    values = torch.zeros(1, 3, 3)
    values[0, 1, 0], values[0, 2, 1] = 1.0, math.exp(-10)
    curve = by_distance(values)
    assert curve.mean_log[1].item() == pytest.approx(-5)
    assert curve.zeros.tolist() == [3, 0, 1]
    assert curve.mean_log[0] == -math.inf
    assert math.isnan(curve.slope)
    assert curve.to_dict()["mean_log"][0] is None


def test_half_lives():
    assert memory_half_life(Diagonal(torch.ones(1, 9, 1, 1))).item() == math.inf
    assert memory_half_life(Diagonal(torch.full((1, 9, 1, 1), 0.5))).item() == 1
    long = torch.full((1, 3000, 1, 1), 0.7)
    assert by_distance(gate_curve(1.0)).half_life == math.inf
    assert memory_half_life(Diagonal(long)).item() == 2
    turn = torch.tensor([[0.0, -0.8], [0.8, 0.0]]).expand(1, 9, 1, 2, 2)
    assert memory_half_life(Dense(turn)).item() == 4
    later = torch.tensor([1.0, 1.0, 0.5]).view(1, 3, 1, 1)
    assert memory_half_life(Diagonal(later)).item() == 3
    assert memory_half_life(Diagonal(later), start=2).item() == 1
    with pytest.raises(InvalidInputError, match="diagonal"):
        decay_rate(Dense(turn))
    with pytest.raises(InvalidInputError, match="start"):
        memory_half_life(Diagonal(later), start=3)


def test_memory_curves_are_singular_values_of_plain_products():
    a = normal(2, 6, 1, 3, 3, seed=4)
    found = memory_curve(Dense(a))
    product = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    for t in range(6):
        product = a[:, t, 0] @ product
        values = torch.linalg.svdvals(product).log()
        torch.testing.assert_close(found.most[:, 0, t], values[:, 0])
        torch.testing.assert_close(found.least[:, 0, t], values[:, -1])
    tiny = memory_curve(Dense(torch.eye(2).expand(1, 4000, 1, 2, 2) * 0.5))
    assert tiny.most[0, 0, -1].item() == pytest.approx(-4000 * math.log(2))  # the product itself underflows
    assert memory_curve(Dense(torch.diag(torch.tensor([1.0, 0.0])).expand(1, 3, 1, 2, 2))).least.max() == -math.inf


# -- retention -----------------------------------------------------------------------------------------------------------------


def gates_of(model, a, b):
    """Every block becomes ``h_t = a h_{t-1} + b x_t``."""
    with torch.no_grad():
        for layer in model.layers:
            layer.input.weight.copy_(torch.tensor([[b], [0.0]]))
            layer.readout.out.weight.copy_(torch.tensor([[1.0, 0.0]]))
            layer.readout.out.bias.zero_()
            nn.init.constant_(layer.diagonal.magnitude.weight, 0)
            nn.init.constant_(layer.diagonal.magnitude.bias, math.log(a / (1 - a)))
            for parameter in layer.diagonal.phase.parameters():
                parameter.zero_()
            layer.diagonal.phase.bias.fill_(-60.0)  # phase 2 pi sigmoid(-60): none
    return model


@pytest.mark.parametrize(("b", "expected"), [(1.0, (5.26316, 263.887, 19773.4)), (0.1, (0.0526316, 0.0263887, 0.0197734))])
def test_retention_of_stacked_gates(b, expected):
    torch.manual_seed(0)
    options = {"d_state": 1, "d_generator": "affine", "initial_state": "zero", "skip": False}
    config = ModelConfig(d_model=1, n_layers=3, norm="none", layer=options)
    model = gates_of(Tagger("complex-diagonal", 2, 2, config).double(), 0.9, b)
    found = retention(model, torch.zeros(1, 200, dtype=torch.long), reference="input")
    for rate, value in zip(found.rate.tolist(), expected, strict=True):
        assert rate == pytest.approx(value, rel=3e-5)
    assert found.far_share[0, 5].item() == pytest.approx(0.348678, rel=1e-5)
    relative = retention(model, torch.zeros(1, 200, dtype=torch.long))
    assert relative.rate[1].item() == pytest.approx(expected[1] / expected[0], rel=3e-5)


def test_retention_of_a_shift_register():
    torch.manual_seed(0)
    model = Tagger("shift", 2, 2, ModelConfig(d_model=1, norm="none", layer={"d_state": 6, "wrap": "drop"})).double()
    layer = model.layers[0]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1.0)
        layer.D.zero_()
    found = retention(model, torch.zeros(1, 9, dtype=torch.long), reference="input")
    # One cell per token back, each read once: six tokens count, the others are gone.
    assert found.energy[0, 0].tolist() == [0.0] * 3 + [1.0] * 6
    assert found.far_share[0].tolist()[5:7] == [pytest.approx(1 / 6), 0.0]


class Plain(Layer):
    """``h_t = A h_{t-1} + x_t``, ``y_t = h_t``."""

    traits = Traits("dense", "any", "none", Claim("unknown"), Claim("unknown"), None, "O(N^2)", "this test")

    def __init__(self, a):
        super().__init__()
        self.d_model = len(a)
        self.register_buffer("a", a)

    def initial_state(self, batch_size):
        return (self.a.new_zeros(batch_size, 1, self.d_model),)

    def transitions(self, x, state=None):
        return Dense(self.a.expand(*x.shape[:2], 1, *self.a.shape))

    def _forward(self, x, state, cu_seqlens):
        h, outputs = state[0][:, 0], []
        for u in x.unbind(1):
            h = h @ self.a.mT + u
            outputs.append(h)
        return torch.stack(outputs, 1), (h.unsqueeze(1),)


def test_energies_of_an_orthogonal_matrix_and_of_a_shift():
    x = normal(1, 9, 6)
    turn = Plain(torch.linalg.qr(normal(6, 6, seed=3)).Q)
    energy = influence(turn, x).square()[0]
    torch.testing.assert_close(energy, torch.full((9, 9), 6.0, dtype=torch.float64).tril())  # N for each token: E = N t
    shift = Plain(torch.eye(6, dtype=torch.float64).roll(1, 0).tril(-1))
    energy = influence(shift, x).square()[0, -1]
    torch.testing.assert_close(energy, torch.tensor([0.0, 0, 0, 1, 2, 3, 4, 5, 6], dtype=torch.float64))
    assert energy.sum() == 21


# -- decoding ------------------------------------------------------------------------------------------------------------------


def test_probes_read_a_shift_register_as_far_as_it_reaches():
    tokens = torch.randint(0, 3, (60, 30), generator=torch.Generator().manual_seed(2))
    x = torch.nn.functional.one_hot(tokens, 3).double() - 0.4
    layer = make_layer("shift", 3, d_state=4, wrap="drop").double()
    found = decoding(layer, x, tokens, lags=(0, 1, 3, 4, 9))
    assert found.accuracy[:3] == (1.0, 1.0, 1.0)  # four cells hold tokens 0 to 3 back; there is nothing of the others
    chance = max((tokens[30:, :26] == value).double().mean().item() for value in range(3))
    assert found.chance[3] == pytest.approx(chance)
    assert all(abs(share - 1 / 3) < 0.1 for share in found.accuracy[3:])
    assert max(found.control) < 0.7  # a probe that learnt nothing still maps each token to some answer, at times the right one
    assert found.retention[2] == pytest.approx((1 - found.chance[2]) / (1 - found.chance[0]))
    assert abs(found.retention[4]) < 0.15
    assert found.samples == (900, 870, 810, 780, 630)
    assert found.selectivity[0] == 1.0 - found.control[0]


def test_probes_refuse_what_does_not_fit():
    tokens = torch.zeros(2, 4, dtype=torch.long)
    for layer, x, lags in (("lru", normal(2, 5, 3), (0,)), ("lru", normal(2, 4, 3), (1, 2)), ("lru", normal(2, 4, 3), (0, 4))):
        with pytest.raises(InvalidInputError, match=r"lags|shapes"):
            decoding(make_layer(layer, 3), x, tokens, lags=lags)
    with pytest.raises(InvalidInputError, match="cache"):
        decoding(make_layer("transformer", 4, n_heads=1), normal(2, 4, 4), tokens, lags=(0,))
