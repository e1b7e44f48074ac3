"""Models that read all answers off the last position, against the equations of the decoder."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig, Tagger
from statetrack.models.decoder import LastDecoder, sinusoids
from statetrack.recipes.defaults import default_config
from statetrack.tasks import make_task
from statetrack.training import train
from statetrack.training.settings import check


def erf_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def normalised(x: list[float]) -> list[float]:
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(variance + 1e-5) for v in x]


@torch.no_grad()
def test_the_decoder_is_what_its_equations_say() -> None:
    torch.manual_seed(0)
    decoder, x = LastDecoder(4).double(), torch.randn(2, 5, 4, dtype=torch.float64)
    out = decoder(x)
    for row in range(2):
        for t in range(5):
            waves = [math.sin(t), math.sin(t / 10_000), math.cos(t), math.cos(t / 10_000)]
            z = [float(x[row, -1, i]) + waves[i] for i in range(4)]
            for stage in decoder.rounds:
                linear, entering = stage[1], normalised(z)
                z = [
                    erf_gelu(sum(float(linear.weight[i, j]) * entering[j] for j in range(4)) + float(linear.bias[i]))
                    for i in range(4)
                ]
            assert out[row, t].tolist() == pytest.approx(z, abs=1e-6)


def test_only_the_last_position_is_read() -> None:
    torch.manual_seed(1)
    decoder, x = LastDecoder(6), torch.randn(1, 7, 6)
    changed = torch.cat((torch.randn(1, 6, 6), x[:, -1:]), dim=1)
    assert torch.equal(decoder(x), decoder(changed))
    assert len({tuple(row) for row in decoder(x)[0].tolist()}) == 7, "positions differ"
    assert sinusoids(3, 5).shape == (3, 5)


def test_rows_of_several_lengths_are_refused() -> None:
    model = Tagger("rnn", 5, 5, ModelConfig(d_model=4, read_at="last"))
    tokens = torch.zeros(2, 6, dtype=torch.long)
    assert model(tokens)[0].shape == (2, 6, 5)
    for where in ({"mask": torch.ones(2, 6, dtype=torch.bool)}, {"cu_seqlens": torch.tensor([0, 6])}):
        with pytest.raises(InvalidInputError, match="rows of one length"):
            model(tokens, **where)
    with pytest.raises(InvalidInputError, match="read_at must be one of each, last"):
        Tagger("rnn", 5, 5, ModelConfig(d_model=4, read_at="first"))  # type: ignore[arg-type]


def test_the_compression_task_asks_for_such_a_model() -> None:
    config = default_config("lstm", "mad-compression", task_options={"vocab_size": 3})
    check(config)
    assert config.model.read_at == "last" and config.lengths.low == config.lengths.high == config.evaluation.high
    with pytest.raises(InvalidInputError, match=r"lengths\.low = lengths\.high"):
        replace(config, lengths=replace(config.lengths, low=3)).validate()


@pytest.mark.slow
def test_a_run_of_the_compression_task(tmp_path) -> None:
    config = default_config("lstm", "mad-compression", task_options={"vocab_size": 3})
    # Two letters and the end: a state of 24 numbers holds them all, so far more than half of them come back.
    config = replace(
        config,
        model=replace(config.model, d_model=24),
        lengths=replace(config.lengths, low=6, high=6),
        evaluation=replace(config.evaluation, low=6, high=6, every=150, n=64),
        optim=replace(config.optim, decay_steps=20, weight_decay=0.0),
        steps=150,
        batch_size=64,
    )
    run = train(config, tmp_path / "run")
    assert run.progress().validation > 0.8
    assert run.evaluate([6], n=64)["accuracy"][6] > 0.8
    assert make_task("mad-compression").chance < 0.1
