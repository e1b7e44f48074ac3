"""Every tool on every registered layer, and on one that is registered here, each against what its definition demands."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from statetrack.analysis.recency import (
    by_distance,
    hidden_attention,
    influence,
    memory_half_life,
    model_influence,
    operator,
    retention,
    rollout,
    unroll,
)
from statetrack.analysis.recency.readouts import readouts
from statetrack.analysis.recency.unrolled import has_states
from statetrack.analysis.smoothing import channel_diversity, smoothing_bound, smoothing_by_depth
from statetrack.analysis.state_use import effective_state_size, state_drift, state_use
from statetrack.analysis.state_use.monitor import measure_layers
from statetrack.layers import layers, make_layer
from statetrack.layers.base import Claim, Layer, Traits, layer_options, register
from statetrack.models import ModelConfig, Tagger
from statetrack.structures import Dense, Diagonal, Structure

WIDTH, LENGTH = 4, 5
OUTSIDE = "turning-pair"
SMALL = {"d_state": 2, "n_heads": 1}
SPECIAL = {"slice": {"block_size": 1}}
STRAIGHT_THROUGH = {"flash-pd-ssm", "pd-ssm"}
"""Layers with choices, whose derivative stands in for one that does not exist."""


class PairState(NamedTuple):
    pair: Tensor


class TurningPair(Layer):
    """``h_t = r_t R(angle_t) h_{t-1} + B x_t``, ``y_t = tanh(x_t) * C h_t``: a layer that the library does not know."""

    traits = Traits(
        structure="dense 2 x 2",
        spectrum="complex pairs",
        input_dependent="modulus, angle",
        one_layer=Claim("unknown"),
        deeper=Claim("unknown"),
        parity=None,
        cost="O(1)",
        source="this test",
    )

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.gates, self.input = nn.Linear(d_model, 2), nn.Linear(d_model, 2)
        self.output = nn.Linear(2, d_model, bias=False)

    def transitions(self, x: Tensor, state: Any = None) -> Structure:
        modulus, angle = self.gates(x).unbind(-1)
        cos, sin = angle.cos(), angle.sin()
        turn = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
        return Dense((modulus.sigmoid()[..., None, None] * turn).unsqueeze(2))

    def initial_state(self, batch_size: int) -> PairState:
        return PairState(self.input.weight.new_zeros(batch_size, 1, 2))

    def _forward(self, x: Tensor, state: Any, cu_seqlens: Tensor | None) -> tuple[Tensor, PairState]:
        a, h, outputs = self.transitions(x).to_dense(), state.pair[:, 0], []
        for t in range(x.shape[1]):
            h = torch.einsum("bij,bj->bi", a[:, t, 0], h) + self.input(x[:, t])
            outputs.append(x[:, t].tanh() * self.output(h))
        return torch.stack(outputs, 1), PairState(h.unsqueeze(1))


@pytest.fixture(params=[*layers, OUTSIDE])
def name(request, monkeypatch):
    """A registered name; the registry of this test alone knows one more."""
    monkeypatch.setattr(layers, "_entries", dict(layers._entries))
    register(OUTSIDE)(TurningPair)
    return request.param


def options_of(name):
    small = {**SMALL, **SPECIAL.get(name, {})}
    return {key: value for key, value in small.items() if key in layer_options(name)}


@pytest.fixture
def layer(name):
    torch.manual_seed(0)
    made = make_layer(name, WIDTH, **options_of(name)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.eval()


@pytest.fixture
def x():
    return torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_every_tool(name, layer, x):
    check_operator(layer, x)
    check_influence(name, layer, x)
    check_smoothing(layer, x)
    check_state_use(layer, x)
    check_model(name)


def check_operator(layer, x):
    """Contributions are causal and sum to the layer's own output; shares are those of their lengths."""
    with torch.no_grad():
        y = layer(x)[0]
    found = operator(layer, x, block=2)
    close(found.vectors.sum(2) + found.start, y)
    close(found.sizes, found.vectors.norm(dim=-1))
    assert not found.sizes.triu(1).any()
    if has_states(layer) and layer.traits.linear:
        check_contributions(layer, x, found)
    share = hidden_attention(layer, x)
    close(share.sum(-1), torch.ones(1, LENGTH, dtype=torch.float64))
    close(rollout([share, share]).sum(-1), torch.ones(1, LENGTH, dtype=torch.float64))


def check_contributions(layer, x, found):
    """Where outputs are linear in the state before their token, by runs of the layer: its step on what is left of each write."""
    run = unroll(layer, x)
    a, w = run.transitions.to_dense(), run.writes
    with torch.no_grad():
        for t in range(LENGTH):

            def step(h, t=t):
                return run.one_step(slice(t, t + 1), h)[0]

            nothing = torch.zeros_like(run.h[:, 0])
            own, any_state = step(nothing), torch.randn(nothing.shape, generator=torch.Generator().manual_seed(t)).to(nothing)
            if not torch.allclose(step(2 * any_state) - own, 2 * (step(any_state) - own), rtol=1e-9, atol=1e-11):
                continue  # a norm stands between state and output
            close(found.vectors[:, t, t], own)
            for s in range(t):
                h = w[:, s]
                for r in range(s + 1, t):
                    h = a[:, r] @ h
                close(found.vectors[:, t, s], step(h) - own)


def check_influence(name, layer, x):
    """By vector-Jacobian products, by the transitions, and by finite differences where there is a derivative."""
    found = influence(layer, x)
    assert not found.triu(1).any()
    if has_states(layer):
        close(influence(layer, x, method="operator"), found, 1e-11)
    if name not in STRAIGHT_THROUGH:
        close(found[0], differences(layer, x), 1e-5)
    curve = by_distance(found)
    assert curve.pairs.tolist() == list(range(LENGTH, 0, -1))
    assert curve.half_life > 0 or math.isnan(curve.half_life)
    assert curve.far_share[0] == pytest.approx(1)
    if has_states(layer):
        a = layer.transitions(x)
        life = memory_half_life(a)
        assert life.shape == (1, a.batch_shape[2], *([a.state_size] if isinstance(a, Diagonal) else []))
        assert (life >= 1).all()


def differences(layer, x, eps=1e-5):
    """``|dy_t / dx_s|_F`` by central differences."""
    energy = torch.zeros(LENGTH, LENGTH, dtype=torch.float64)
    with torch.no_grad():
        for s in range(LENGTH):
            for d in range(WIDTH):
                change = torch.zeros_like(x)
                change[0, s, d] = eps
                energy[:, s] += ((layer(x + change)[0] - layer(x - change)[0])[0] / (2 * eps)).square().sum(-1)
    return energy.sqrt()


def check_smoothing(layer, x):
    """The theorem's bound holds wherever it is printed."""
    found = smoothing_bound(layer, x)
    if has_states(layer) and isinstance(layer.transitions(x), Diagonal):
        assert channel_diversity(layer.transitions(x)).min() >= 0
    if found is not None and found.held_entries < 1:
        assert found.ratio <= 1 + 1e-9
        assert found.measured <= found.bound * (1 + 1e-9)


def check_state_use(layer, x):
    """Two sweeps give the singular values of the map itself; ranks are ordered and bounded by the size."""
    size = effective_state_size(layer, x)
    if has_states(layer) and layer.traits.linear:
        close(size.sigma, dense_sigma(layer, x, size.sigma.shape[-1]), 1e-12 * max(1.0, float(size.sigma.max())))
        assert 0 <= size.utilisation() <= 1
    use = state_use(layer, x)
    assert (use.participation <= use.entropy_rank + 1e-9).all()
    assert (use.entropy_rank <= use.size + 1e-9).all()
    assert (use.rank <= min(use.size, use.samples)).all()
    assert ((use.hoyer >= 0) & (use.hoyer <= 1 + 1e-12)).all()
    drift = state_drift(layer, x, inside=LENGTH, bucket=LENGTH)
    close(drift.norm_ratio, torch.where(drift.norm > 0, 1.0, drift.norm_ratio))  # all positions lie within


def dense_sigma(layer, x, n):
    """Singular values of every block of the map from writes (and the first state) to outputs, one state column after another."""
    run = unroll(layer, x)
    read, a, w = readouts(run, slice(0, LENGTH)), run.transitions.to_dense(), run.writes
    found = []
    for head in range(run.view.n_heads):
        values = []
        for cut in range(1, LENGTH):
            past = [run.h[0, 0, head], *(w[0, s, head] for s in range(cut))]  # (N, V) each
            for s in range(1, cut + 1):
                for t in range(s, cut):
                    past[s] = a[0, t, head] @ past[s]
            for t in range(cut):
                past[0] = a[0, t, head] @ past[0]
            rows, carry = [], torch.eye(a.shape[-1], dtype=a.dtype)
            for t in range(cut, LENGTH):
                rows.append(read[0, t, :, head].conj().transpose(1, 2).flatten(0, 1).to(a.dtype) @ carry)
                carry = a[0, t, head] @ carry
            past, rows = torch.cat(past, 1), torch.cat(rows)
            if run.h.is_complex():  # outputs are real parts: real and imaginary parts are states of their own
                past, rows = torch.cat([past.real, past.imag]), torch.cat([rows.real, -rows.imag], 1)
            sigma = torch.linalg.svdvals(rows @ past)[:n]
            values.append(nn.functional.pad(sigma, (0, n - len(sigma))))
        found.append(torch.stack(values))
    return torch.stack(found).unsqueeze(0)


def check_model(name):
    """Two blocks: influence, retention, smoothing by depth and the monitor's numbers, with finite values in the right places."""
    torch.manual_seed(0)
    config = ModelConfig(d_model=WIDTH, n_layers=2, norm="pre", residual=True, layer=options_of(name))
    model, tokens = Tagger(name, 3, 2, config).eval(), torch.tensor([[0, 1, 2, 1, 0]])
    before = [p.clone() for p in model.parameters()]
    exact = model_influence(model, tokens, probes=0)
    assert exact.shape == (1, LENGTH, LENGTH) and not exact.triu(1).any() and exact.isfinite().all()
    kept = retention(model, tokens)
    assert kept.rate[0] == pytest.approx(1) and kept.energy.shape == (2, 1, LENGTH)
    depth = smoothing_by_depth(model, tokens)
    assert len(depth.blocks) == 3 and len(depth.mixers) == len(depth.states) == 2
    assert all(math.isfinite(each.relative) for each in depth.blocks)
    records = measure_layers(model, tokens)
    assert [record["layer"] for record in records] == [1, 2]
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
