"""Gradients on chunks: the exact variants equal one pass over everything, the truncated one a naive truncation."""

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers import layers
from statetrack.models import ModelConfig
from statetrack.timeseries.backprop import backpropagate, scores_of
from statetrack.timeseries.network import SeriesNet

LENGTHS = torch.tensor([23, 9, 17])
STREAMING = [name for name in layers if layers.get(name).traits.streams]


def build(layer="linoss", pooling="mean", dropout=0.0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = ModelConfig(d_model=8, n_layers=2, norm="pre", residual=True, feedforward=1, dropout=dropout, layer=options)
        return SeriesNet(layer, 3, 2, config, pooling=pooling).double()


def data():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(3, 23, 3, generator=generator, dtype=torch.float64)


def squares(scores):
    return (scores - torch.tensor([1.0, -0.5], dtype=scores.dtype)).square().sum()


def gradients(net, **how):
    net.zero_grad()
    loss, scores = backpropagate(net, data(), LENGTHS, squares, **how)
    return loss, scores, {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def naive(net):
    """Every row alone, in one pass, by autograd."""
    net.zero_grad()
    scores = torch.cat([net(data()[i : i + 1, :n]) for i, n in enumerate(LENGTHS.tolist())])
    squares(scores).backward()
    return scores.detach(), {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("gradient", ["full", "recompute", "carries"])
@pytest.mark.parametrize("layer", ["linoss", "mamba", "lstm", "deltanet", "pd-ssm"])
def test_exact_variants_equal_one_pass_per_row(layer, gradient, pooling):
    net = build(layer, pooling)
    scores, expected = naive(net)
    loss, found_scores, found = gradients(net, gradient=gradient, chunk_size=5)
    torch.testing.assert_close(found_scores, scores)
    torch.testing.assert_close(loss, squares(scores))
    assert found.keys() == expected.keys()
    for name, grad in found.items():
        torch.testing.assert_close(grad, expected[name], rtol=1e-7, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("layer", STREAMING)
def test_every_layer_with_a_constant_state(layer):
    net = build(layer)
    _, _, expected = gradients(net, gradient="full")
    for gradient in ("recompute", "carries"):
        _, _, found = gradients(net, gradient=gradient, chunk_size=8)
        assert found.keys() == expected.keys()
        for name, grad in found.items():
            torch.testing.assert_close(grad, expected[name], rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


def test_a_learned_initial_state_gets_its_gradient():
    net = build("flash-pd-ssm", initial_state="learned", d_state=4)
    _, expected = naive(net)
    assert expected["blocks.0.layer.start"].any()
    _, _, found = gradients(net, gradient="carries", chunk_size=4)
    torch.testing.assert_close(found["blocks.0.layer.start"], expected["blocks.0.layer.start"])


def test_truncation_equals_states_cut_off_at_the_borders():
    net = build("lstm")
    net.zero_grad()
    carry = net.start(3)
    for a in range(0, 23, 5):
        cut = carry._replace(states=[type(s)(*(t.detach() for t in s)) for s in carry.states])
        mask = torch.arange(a, min(23, a + 5)) < LENGTHS.unsqueeze(1)
        carry = net.advance(data()[:, a : a + 5], cut, mask)
    squares(net.read(carry)).backward()
    expected = {name: p.grad.clone() for name, p in net.named_parameters()}
    _, _, found = gradients(net, gradient="truncated", chunk_size=5)
    for name, grad in found.items():
        torch.testing.assert_close(grad, expected[name])
    _, exact = naive(net)
    assert any(not torch.allclose(found[name], exact[name], rtol=1e-3) for name in found), "nothing was truncated"


def test_a_chunk_that_runs_twice_drops_the_same():
    net, dropout = build("lru", dropout=0.5), torch.Generator()
    net.set_dropout(dropout)
    results = [
        gradients(net, gradient=gradient, chunk_size=6, dropout=dropout, seed=seed)
        for gradient, seed in (("recompute", 7), ("carries", 7), ("carries", 8))
    ]
    torch.testing.assert_close(results[0][1], results[1][1])
    for name, grad in results[0][2].items():
        torch.testing.assert_close(grad, results[1][2][name])
    assert not torch.allclose(results[1][1], results[2][1])


def test_scores_of_chunks_equal_those_of_rows():
    net = build("flash-pd-ssm", d_state=4)
    torch.testing.assert_close(scores_of(net, data(), LENGTHS, 4), naive(net)[0])


@pytest.mark.parametrize(("how", "words"), [({"gradient": "half"}, "gradient"), ({"chunk_size": 0}, "chunk_size")])
def test_what_does_not_fit_is_refused(how, words):
    with pytest.raises(InvalidInputError, match=words):
        gradients(build(), **how)


@pytest.mark.parametrize("change", [{"n_layers": 0}, {"dropout": 1.0}, {"feedforward": -1}, {"norm": "some"}])
def test_networks_that_do_not_fit_are_refused(change):
    with pytest.raises(InvalidInputError):
        SeriesNet("rnn", 3, 2, ModelConfig(**{"d_model": 4, **change}))
