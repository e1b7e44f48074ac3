"""Sharpness against double loops; the contraction theorem against random recurrences, with and without its assumptions."""

from __future__ import annotations

import math

import pytest
import torch

from statetrack.analysis.recency import unroll
from statetrack.analysis.smoothing import channel_diversity, contraction_bound, sharpness, smoothing_bound, smoothing_by_depth
from statetrack.errors import InvalidInputError
from statetrack.layers import make_layer
from statetrack.models import ModelConfig, Tagger
from statetrack.structures import Diagonal


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_sharpness_is_that_of_double_loops():
    z = normal(2, 7, 3) + 2
    distance = energy = cosine = relative = 0.0
    for row in z:
        total = sum(float((row[t] - row[s]).norm()) for t in range(7) for s in range(7) if t != s) / 42
        distance += total / 2
        relative += total / float(row.norm(dim=-1).mean()) / 2
        energy += sum(float((row[t] - row[s]).square().sum()) for t in range(7) for s in range(7) if t != s) / 84
        similar = sum(float(row[t] @ row[s] / row[t].norm() / row[s].norm()) for t in range(7) for s in range(7) if t != s) / 42
        cosine += (1 - similar) / 2
    found = sharpness(z)
    assert (found.distance, found.relative, found.energy, found.cosine) == pytest.approx((distance, relative, energy, cosine))
    assert found.pairs == 42


def test_known_sharpness():
    same = sharpness(torch.ones(1, 5, 3))
    assert (same.distance, same.energy) == (0.0, 0.0)
    assert same.cosine == pytest.approx(0)
    assert same.effective_rank == pytest.approx(1)
    apart = sharpness(torch.eye(4).unsqueeze(0))
    assert (apart.distance, apart.relative) == pytest.approx((math.sqrt(2), math.sqrt(2)))
    assert apart.cosine == pytest.approx(1)
    far = normal(1, 6, 3)
    assert sharpness(far + 1e8).energy == pytest.approx(sharpness(far).energy, rel=1e-6)
    assert sharpness(torch.zeros(1, 3, 2)).relative == 0
    with pytest.raises(InvalidInputError, match="two tokens"):
        sharpness(torch.ones(1, 1, 3))


def trial(seed, first, second, n=4000, length=6):
    """States of random scalar recurrences, with gates, weights and drives under the assumptions asked for."""
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(n, length, 1, generator=g, dtype=torch.float64)
    d = torch.rand(n, length, 1, generator=g, dtype=torch.float64) * (1 - a if first else 1.5)
    b = torch.randn(n, length, 1, generator=g, dtype=torch.float64)
    if second:
        b[:, 0], b[:, 1] = -b[:, 0].abs(), b[:, 1].abs()
    else:
        b = b.abs() + 0.5
    h, states = torch.zeros(n, 1, dtype=torch.float64), []
    for t in range(length):
        h = a[:, t] * h + d[:, t] * b[:, t]
        states.append(h)
    return a, d, b, torch.stack(states, 1)


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, True), (True, False), (False, False)])
def test_the_theorem_needs_both_assumptions(first, second):
    a, d, b, h = trial(0, first, second)
    found = contraction_bound(a, d, b)
    apart = (h.unsqueeze(2) - h.unsqueeze(1)).abs()
    later = torch.ones(6, 6, dtype=torch.bool).tril(-1)
    broken = (apart > found.pairwise + 1e-12)[:, later].any((1, 2))
    published = apart.amax((1, 2, 3)) > found.published + 1e-12
    assert found.applies == (first and second)
    if first and second:
        assert not broken.any() and not published.any()
    else:
        assert broken.any() and published.any()
    # Phi by a plain product.
    phi = a[0, 2:5].prod()
    torch.testing.assert_close(found.pairwise[0, 4, 1, 0], (1 - phi) * (b[0].max() - b[0].min()))


@pytest.mark.parametrize(("a", "largest"), [(2.0, 0.797), (4.0, 0.980), (16.0, 0.9999)])
def test_steps_up_to_which_the_first_assumption_holds(a, largest):
    """``A = exp(-a dt)`` with weight ``dt``, the split of Mamba."""

    def share(steps):
        dt = torch.as_tensor(steps, dtype=torch.float64).view(1, -1, 1)
        return contraction_bound((-a * dt).exp(), dt, torch.zeros_like(dt)).share_i

    assert share([1e-3, 0.5, largest - 1e-3]) == 1.0
    assert share([largest + 1e-3, 1.01]) == 0.0


def test_where_the_first_assumption_never_holds_and_where_it_always_does():
    dt = torch.logspace(-4, 1, 40, dtype=torch.float64).view(1, -1, 1)
    none = torch.zeros_like(dt)
    assert contraction_bound((-dt).exp(), dt, none).share_i == 0.0
    assert contraction_bound(torch.ones_like(dt), dt, none).share_i == 0.0  # a state pinned at 1
    for a in (1.0, 3.0):  # exact zero-order hold
        assert contraction_bound((-a * dt).exp(), (1 - (-a * dt).exp()) / a, none).share_i == 1.0


def test_a_closed_gate_forgets_everything():
    a = torch.tensor([0.5, 0.0, 0.5, 0.5]).double().view(1, 4, 1)
    b = torch.tensor([-1.0, 1.0, 0.0, 2.0]).double().view(1, 4, 1)
    found = contraction_bound(a, 1 - a, b)
    assert found.pairwise[0, 2, 0, 0] == 3
    assert found.pairwise[0, 3, 1, 0] == pytest.approx(3 * 0.75)
    assert found.decay_min.item() == 0


def test_bound_of_a_layer_holds_and_is_that_of_the_equations():
    torch.manual_seed(0)
    layer, x = make_layer("mamba", 3, d_state=2).double(), normal(2, 12, 3)
    found = smoothing_bound(layer, x)
    assert 0 < found.ratio <= 1
    assert 0 < found.measured <= found.bound
    with torch.no_grad():
        h, state = [], layer.initial_state(2)
        for t in range(12):
            state = layer.step(x[:, t], state)[1]
            h.append(state.h)
    h = torch.stack(h, 1)
    assert found.measured == pytest.approx(float((h.amax(1) - h.amin(1)).flatten(1).amax(1).mean()))
    a = layer.transitions(x).value.detach()
    assert (found.decay_min, found.decay_max) == pytest.approx((float(a.min()), float(a.max())))
    before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
    drive = (h - a * before) / (1 - a)
    widest = (drive.amax(1).clamp(min=0) - drive.amin(1).clamp(max=0)) * (1 - a[:, 1:].prod(1))
    assert found.bound == pytest.approx(float(widest.flatten(1).amax(1).mean()))
    span = (drive.amax(1).clamp(min=0) - drive.amin(1).clamp(max=0)).flatten(1).amax(1)
    assert found.published == pytest.approx(float(((1 - a.flatten(1).amin(1) ** 11) * span).mean()))
    assert found.bound <= found.published


def test_where_the_theorem_says_nothing():
    x = normal(1, 5, 4)
    for name in ("lru", "rnn", "deltanet", "transformer"):
        assert smoothing_bound(make_layer(name, 4), x) is None
    torch.manual_seed(0)
    assert smoothing_bound(make_layer("polarized-mamba", 4, d_state=2), x).held_entries == 0.25


def test_depth_is_walked_from_the_embedding_up():
    torch.manual_seed(1)
    model = Tagger("mamba", 5, 2, ModelConfig(d_model=4, n_layers=2, norm="pre", residual=True, layer={"d_state": 2}))
    tokens = torch.tensor([[0, 1, 2, 3, 4, 1], [2, 2, 0, 1, 3, 4]])
    found = smoothing_by_depth(model, tokens)
    model = model.double().eval()
    with torch.no_grad():
        x = model.embedding(tokens)
        for depth, block in enumerate(model.blocks):
            assert found.blocks[depth].distance == pytest.approx(sharpness(x).distance)
            mixed = block.layer(block.norms[0](x))[0]
            assert found.mixers[depth].distance == pytest.approx(sharpness(mixed).distance)
            run = unroll(block.layer, block.norms[0](x))
            a = block.layer.transitions(block.norms[0](x)).value
            before = run.h[:, :-1].squeeze(-1)
            written = run.h[:, 1:].squeeze(-1) - a * before
            assert found.writes[depth].distance == pytest.approx(sharpness(written.flatten(2)).distance)
            assert found.states[depth].distance == pytest.approx(sharpness(run.h[:, 1:].flatten(2)).distance)
            x = block(x, None)[0]
        assert found.blocks[2].distance == pytest.approx(sharpness(x).distance)
    assert len(found.states) == len(found.bounds) == 2
    assert all(each.ratio <= 1 for each in found.bounds)
    assert model.training is False


def test_channels_of_fixed_gates_have_no_diversity():
    x = normal(1, 5, 4)
    assert not channel_diversity(make_layer("lru", 4).transitions(x)).any()
    gates = torch.tensor([[0.9, 0.2], [0.5, 0.4]]).view(1, 2, 1, 2)
    torch.testing.assert_close(channel_diversity(Diagonal(gates))[0, 0], torch.tensor([0.4, 0.2]))
