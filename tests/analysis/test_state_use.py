"""State use against published numbers, dense singular value decompositions and hand-made systems."""

from __future__ import annotations

import math

import pytest
import torch

from statetrack.analysis.recency import unroll
from statetrack.analysis.state_use import (
    EffectiveSize,
    StateMonitor,
    covariance_use,
    drift_of,
    effective_state_size,
    energy_rank,
    entropy_rank,
    hankel_singular_values,
    hoyer_sparsity,
    numerical_rank,
    participation_ratio,
    resume_monitored,
    small_share,
    spectral_entropy,
    stable_rank,
    state_drift,
    state_use,
    train_monitored,
)
from statetrack.analysis.state_use.monitor import recorded
from statetrack.errors import InvalidInputError
from statetrack.layers import make_layer
from statetrack.models import ModelConfig
from statetrack.training import EvalConfig, TrainConfig
from statetrack.training.files import read_json


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# -- functionals ---------------------------------------------------------------------------------------------------------------


def test_functionals_at_known_vectors():
    s = torch.tensor([4.0, 2.0, 1.0, 1.0], dtype=torch.float64)
    assert entropy_rank(s).item() == pytest.approx(3.3636, abs=5e-5)
    assert participation_ratio(s).item() == pytest.approx(2.9091, abs=5e-5)
    assert entropy_rank(s**2).item() == pytest.approx(2.2763, abs=5e-5)
    assert participation_ratio(s**2).item() == pytest.approx(1.7664, abs=5e-5)
    assert stable_rank(s).item() == pytest.approx(1.375)
    one = torch.ones(4, dtype=torch.float64)
    assert entropy_rank(one).item() == pytest.approx(4) and participation_ratio(one).item() == pytest.approx(4)
    assert spectral_entropy(one).item() == pytest.approx(1)
    assert spectral_entropy(torch.ones(1)).item() == 0
    steps = torch.tensor([10.0, 5.0, 2.0, 1.0, 0.5])
    assert energy_rank(steps, 0.9).item() == 2  # by sums of the values themselves it would be 3
    assert energy_rank(steps, 1.0).item() == 5
    zeros = torch.zeros(3)
    assert [f(zeros).item() for f in (numerical_rank, participation_ratio, entropy_rank, energy_rank, stable_rank)] == [0] * 5


def test_sparsity():
    assert hoyer_sparsity(torch.tensor([3.0, 4.0, 0.0, 0.0])).item() == pytest.approx(0.6)
    assert hoyer_sparsity(torch.tensor([[0.0, 7.0, 0.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]])).tolist() == pytest.approx(
        [1, 0, 1], abs=1e-6
    )
    h = normal(50)
    for f in (hoyer_sparsity, small_share):
        assert f(h).item() == pytest.approx(f(1e-9 * h).item())
    assert small_share(torch.tensor([1.0, 0.01, 1.0, 0.2]), 0.1).item() == 0.25


def test_ranks_are_ordered():
    s = normal(200, 6).abs()
    assert (numerical_rank(s) >= entropy_rank(s) - 1e-9).all()
    assert (entropy_rank(s) >= participation_ratio(s) - 1e-9).all()
    assert numerical_rank(torch.tensor([1.0, 0.1, 0.01]), atol=0.05).item() == 2
    with pytest.raises(InvalidInputError, match="negative"):
        entropy_rank(torch.tensor([-1.0]))


# -- effective state size ------------------------------------------------------------------------------------------------------


def dense_sigma(a, b, c):
    """Singular values of the blocks of the full operator, each on its own."""
    length, n = a.shape[0], a.shape[-1]
    dtype = torch.promote_types(a.dtype, b.dtype)
    blocks = [[None] * length for _ in range(length)]
    for s in range(length):
        x = b[s].to(dtype)
        for t in range(s, length):
            x = a[t].to(dtype) @ x if t > s else x
            blocks[t][s] = c[t].to(dtype) @ x
    found = []
    for i in range(1, length):
        h = torch.cat([torch.cat([blocks[t][s] for s in range(i)], 1) for t in range(i, length)])
        sigma = torch.linalg.svdvals(h)[:n]
        found.append(torch.nn.functional.pad(sigma, (0, n - len(sigma))))
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("kind", ["dense", "pd", "householder", "diagonal"])
def test_two_sweeps_equal_dense_decompositions(kind, dtype):
    length, n, m, p = 30, 5, 2, 3
    a = normal(length, n, n, seed=2, dtype=dtype) / math.sqrt(n)
    if kind == "diagonal":
        a = torch.diag_embed(normal(length, n, seed=3, dtype=dtype) / 2)
    if kind == "pd":
        maps = torch.randint(0, n, (length, n), generator=torch.Generator().manual_seed(4))
        a = torch.nn.functional.one_hot(maps, n).mT.to(dtype) * normal(length, 1, n, seed=5, dtype=dtype)
    if kind == "householder":
        k = normal(length, n, 1, seed=6, dtype=dtype)
        a = torch.eye(n, dtype=dtype) - 1.7 * k @ k.mH / (k.mH @ k)
    b, c = normal(length, n, m, seed=7, dtype=dtype), normal(length, p, n, seed=8, dtype=dtype)
    found, expected = hankel_singular_values(a, b, c), dense_sigma(a, b, c)
    assert (found - expected).abs().max() < 1e-12 * expected.max()


def test_rank_profile_of_a_random_system():
    a, b, c = normal(40, 6, 6) / math.sqrt(6), normal(40, 6, 1, seed=2), normal(40, 1, 6, seed=3)
    sigma = hankel_singular_values(a, b, c)
    rank = (sigma > 1e-9 * sigma.amax(-1, keepdim=True)).sum(-1).tolist()
    assert rank == [1, 2, 3, 4, 5] + [6] * 29 + [5, 4, 3, 2, 1]


def test_a_small_system_in_a_large_space_shows_its_own_size():
    turn = torch.linalg.qr(normal(7, 7, seed=9)).Q
    a = torch.zeros(30, 7, 7, dtype=torch.float64)
    a[:, :4, :4] = normal(30, 4, 4) / 2
    b, c = torch.zeros(30, 7, 1, dtype=torch.float64), torch.zeros(30, 1, 7, dtype=torch.float64)
    b[:, :4], c[:, :, :4] = normal(30, 4, 1, seed=2), normal(30, 1, 4, seed=3)
    sigma = hankel_singular_values(turn @ a @ turn.mT, turn @ b, c @ turn.mT)
    assert ((sigma > 1e-10 * sigma.max()).sum(-1)[6:-6] == 4).all()


def test_layer_size_is_that_of_its_operator():
    """Mamba-2 by its equations: the blocks of the full map from writes to outputs, one head at a time."""
    torch.manual_seed(0)
    layer, x = make_layer("mamba2", 3, d_state=2, d_head=3, d_conv=1).double(), normal(1, 10, 3)
    found = effective_state_size(layer, x)
    with torch.no_grad():
        z, line, r = layer._projected(x[0])
        line = line * layer.conv.weight[:, 0] + layer.conv.bias
        v, b, c = (line * line.sigmoid()).split([6, 2, 2], -1)
        dt = torch.log1p((r + layer.dt_bias).exp())
        a = (-dt * layer.A_log.exp()).exp()
        v = v.unflatten(-1, (2, 3))
        s, y = torch.zeros(2, 2, 3, dtype=torch.float64), []
        for t in range(10):
            s = a[t][:, None, None] * s + dt[t][:, None, None] * b[t][:, None] * v[t].unsqueeze(1)
            y.append((s * c[t][:, None]).sum(1) + layer.D[:, None] * v[t])
        gate = z * z.sigmoid()
        gated = torch.stack(y).flatten(1) * gate
        gain = (gated.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * layer.norm.weight * gate  # (L, 6)
        for head in range(2):
            out = layer.out_proj.weight[:, 3 * head : 3 * head + 3]
            full = torch.zeros(10, 3, 3, 10, 3, dtype=torch.float64)  # (t, e, p of the readout, s, p of the write)
            for t in range(10):
                for i in range(t + 1):
                    scalar = c[t] @ b[i] * dt[i, head] * a[i + 1 : t + 1, head].prod()
                    for column in range(3):
                        full[t, :, column, i, column] = out[:, column] * gain[t, 3 * head + column] * scalar * v[i, head, column]
            for cut in range(1, 10):
                # Columns of a matrix state share one N: their reads are stacked, and so are their writes.
                reads = [out * gain[t, 3 * head : 3 * head + 3] for t in range(cut, 10)]
                o = torch.cat(
                    [
                        torch.stack(
                            [reads[t - cut][e, w] * c[t] * a[cut : t + 1, head].prod() for e in range(3) for w in range(3)]
                        )
                        for t in range(cut, 10)
                    ]
                )
                k = torch.cat([a[i + 1 : cut, head].prod() * dt[i, head] * torch.outer(b[i], v[i, head]) for i in range(cut)], 1)
                sigma = torch.linalg.svdvals(o @ k)[:2]
                torch.testing.assert_close(found.sigma[0, head, cut - 1, : len(sigma)], sigma, rtol=1e-10, atol=1e-13)


def test_complex_states_count_twice_and_attention_has_no_size():
    torch.manual_seed(0)
    lru = effective_state_size(make_layer("lru", 3, d_state=2), normal(1, 20, 3))
    assert lru.total == 4
    assert lru.rank[0, 0, lru.interior].max() == 4
    attention = effective_state_size(make_layer("transformer", 4, n_heads=1), normal(1, 6, 4))
    assert attention.total is None and math.isnan(attention.utilisation())
    assert attention.rank.shape == (1, 1, 5)


def test_a_gate_that_keeps_and_one_that_forgets():
    """An idle half of the state is not counted: only two of four cells are ever written."""
    torch.manual_seed(0)
    layer = make_layer("sd-ssm", 3, d_state=4, dictionary_size=1).double()
    with torch.no_grad():
        layer.dictionary.zero_()
        layer.dictionary[0].fill_diagonal_(1.0)
        layer.input.weight[2:].zero_()
    found = effective_state_size(layer, normal(1, 24, 3))
    assert found.rank[0, 0, found.interior].unique().tolist() == [2]
    assert found.utilisation("rank") == 0.5


# -- covariance, drift, monitor ------------------------------------------------------------------------------------------------


def test_white_states_and_states_of_low_rank():
    found = covariance_use(normal(1, 640, 64))
    assert found.participation.item() == pytest.approx(1 / (1 / 64 + 1 / 640), abs=1.0)
    low = covariance_use(normal(1, 200, 3) @ normal(1, 3, 8, seed=2))
    assert low.rank.item() == 3
    assert low.size == 8
    x = normal(1, 50, 4)
    expected = torch.linalg.eigvalsh(torch.cov(x[0].mT, correction=0)).flip(0)
    torch.testing.assert_close(covariance_use(x).eigenvalues[0], expected)
    torch.testing.assert_close(covariance_use(x * 7).participation, covariance_use(x).participation)


def test_states_are_those_of_the_layer():
    torch.manual_seed(0)
    layer, x = make_layer("deltanet", 4, n_heads=2).double(), normal(1, 9, 4)
    with torch.no_grad():
        samples, state = [], layer.initial_state(1)
        for t in range(9):
            state = layer.step(x[:, t], state)[1]
            samples += state.h[0, 1].mT.unbind(0)  # the columns of the second head
    s = torch.stack(samples)
    expected = torch.linalg.svdvals(s - s.mean(0)).square() / len(s)
    torch.testing.assert_close(state_use(layer, x).eigenvalues[1], expected)
    assert state_use(make_layer("transformer", 4, n_heads=1), x).of == "outputs"


def test_drift_of_stationary_and_of_growing_states():
    calm = drift_of(normal(8, 1024, 2, 6), inside=256)
    assert calm.ends.tolist() == list(range(128, 1025, 128))
    for ratio in (calm.norm_ratio, calm.distance):
        assert (ratio - 1).abs().max() < 0.06
    assert calm.above.max() < 0.03
    ramp = torch.arange(1.0, 1025, dtype=torch.float64).view(1, -1, 1, 1).expand(1, 1024, 1, 3)
    grown = drift_of(ramp, inside=128)
    torch.testing.assert_close(grown.norm_ratio[:, 0], ((grown.ends - 63.5) / 64.5).double())
    assert grown.above[1:].min() == 1


def test_running_sum_of_polarized_mamba_drifts():
    torch.manual_seed(0)
    layer = make_layer("polarized-mamba", 3, d_state=1, n_zeros=0)
    with torch.no_grad():
        layer.conv.bias.add_(0.3)
    found = state_drift(layer, torch.ones(1, 300, 3), inside=50, bucket=50)
    gaps = found.norm.diff(dim=0).mean(1)
    torch.testing.assert_close(gaps[2:], gaps[-1:].expand(3), rtol=0.05, atol=0)  # linear growth
    assert gaps.min() > 0
    assert found.log_retention.shape == (6, 6)
    with pytest.raises(InvalidInputError, match="inside"):
        state_drift(layer, torch.ones(1, 4, 3), inside=5)


def test_monitor_measures_while_training_and_changes_nothing(tmp_path):
    config = TrainConfig(
        "mamba",
        "parity",
        model=ModelConfig(d_model=4, n_layers=2, layer={"d_state": 2}),
        evaluation=EvalConfig(every=10, low=8, high=10, n=8),
        steps=20,
        batch_size=4,
    )
    seen = []
    monitor = StateMonitor(10, words=2, length=8, observer=lambda record: seen.append(record["step"]))
    run = train_monitored(config, tmp_path / "watched", monitor)
    assert [record["step"] for record in monitor.records] == [10, 20]
    assert len(monitor.records[0]["layers"]) == 2
    assert 0 < monitor.records[1]["layers"][0]["utilisation"] <= 1
    assert seen == list(range(1, 21))
    lines = (run.path / "state_use.jsonl").read_text().splitlines()
    assert len(lines) == 2
    from statetrack.training import train

    plain = train(config, tmp_path / "plain")
    for a, b in zip(run.load_model().parameters(), plain.load_model().parameters(), strict=True):
        assert torch.equal(a, b)
    assert read_json(run.path / "config.json")["config"] == read_json(plain.path / "config.json")["config"]


def test_monitor_of_a_run_that_is_stopped_and_resumed_is_that_of_one_that_was_not(tmp_path):
    config = TrainConfig(
        "rnn",
        "parity",
        model=ModelConfig(d_model=4, layer={"d_state": 2}),
        evaluation=EvalConfig(every=10, low=8, high=10, n=8),
        steps=20,
        batch_size=4,
        checkpoint_every=10,
    )

    def stop(record):
        if record["step"] == 15:
            raise RuntimeError

    whole = train_monitored(config, tmp_path / "whole", StateMonitor(4, words=2, length=8))
    with pytest.raises(RuntimeError):
        train_monitored(config, tmp_path / "parts", StateMonitor(4, words=2, length=8, observer=stop))
    monitor = StateMonitor(4, words=2, length=8)
    parts = resume_monitored(tmp_path / "parts", monitor)
    assert [record["step"] for record in monitor.records] == [4, 8, 12, 16, 20]
    assert recorded(parts.path / "state_use.jsonl") == recorded(whole.path / "state_use.jsonl") == monitor.records
    with (parts.path / "state_use.jsonl").open("a") as file:
        file.write('{"step": 2')
    assert recorded(parts.path / "state_use.jsonl") == monitor.records


def test_verdict_on_a_full_state_and_on_an_idle_one():
    def size(filled, n=4):
        sigma = torch.zeros(1, 1, 20, n, dtype=torch.float64)
        sigma[..., :filled] = 1.0
        return EffectiveSize(sigma, n, 1e-9)

    assert [size(filled).verdict() for filled in (0, 2, 4)] == ["collapsed", "in between", "saturated"]
    assert size(2).verdict(saturated=0.5) == "saturated"
    assert EffectiveSize(size(2).sigma, None, 1e-9).verdict() is None
    with pytest.raises(InvalidInputError, match="collapsed"):
        size(1).verdict(saturated=0.1, collapsed=0.2)


def test_a_monitor_that_watches_nothing():
    with pytest.raises(InvalidInputError, match="watch"):
        StateMonitor(1)({"step": 1, "finished": False})
    assert unroll(make_layer("lru", 3), normal(1, 2, 3)).h.shape == (1, 3, 1, 64, 1)
