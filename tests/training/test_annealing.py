"""Annealing at the model's pace: forwards while it is right, backwards while it is not, layer after layer."""

from dataclasses import replace

import pytest

from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig
from statetrack.training import AnnealConfig, EvalConfig, LengthConfig, OptimConfig, TrainConfig, train
from statetrack.training.annealing import advance, layer_shares

PACED = AnnealConfig(steps=8, advance_at=0.9, retreat_at=0.6)


def test_pace_follows_accuracy():
    done, seen = 0.0, []
    for accuracy in (0.95, 0.9, 0.89, 0.6, 0.59, 0.95, 0.0, 0.0):
        done = advance(done, accuracy, 2, PACED)
        seen.append(done * 8)
    assert seen == [1, 2, 2, 2, 0, 1, 0, 0]
    for _ in range(9):
        done = advance(done, 1.0, 2, PACED)
    assert done == 1.0 == advance(done, 0.0, 2, PACED)


def test_layers_that_have_ended_never_begin_again():
    bottom_up = replace(PACED, order="bottom-up")
    done = 0.0
    for _ in range(5):
        done = advance(done, 1.0, 2, bottom_up)
    assert layer_shares(done, 2, bottom_up) == [1.0, 0.25]
    for _ in range(3):
        done = advance(done, 0.0, 2, bottom_up)
    assert layer_shares(done, 2, bottom_up) == [1.0, 0.0]
    assert layer_shares(0.3, 3, PACED) == [0.3, 0.3, 0.3]


CONFIG = TrainConfig(
    "complex-diagonal",
    "parity",
    model=ModelConfig(d_model=8, layer={"d_state": 4, "modulus": "annealed", "phase_levels": 4}),
    optim=OptimConfig(decay_steps=6),
    lengths=LengthConfig(low=3, high=4, start=None, threshold=0.0),
    evaluation=EvalConfig(every=5, low=3, high=6, n=8, stop_at=0.0),
    anneal=AnnealConfig(steps=12, advance_at=0.0, retreat_at=0.0, lr_factor=0.5),
    steps=60,
    batch_size=4,
)


def test_the_last_phase_waits_for_the_end_of_annealing(tmp_path):
    """12 steps of annealing, validation at 15, 6 of decay: 21 in all, at half the learning rate from the second on."""
    records = []
    run = train(CONFIG, tmp_path / "run", observer=lambda record: records.append(dict(record)))
    assert len(records) == 21
    assert [record["lr"] for record in records[3:15]] == pytest.approx([1e-3] * 12)
    assert all(layer.diagonal.progress == 1 for layer in run.load_model().layers)


def test_annealing_that_did_not_end_ends_with_the_budget(tmp_path):
    config = replace(CONFIG, anneal=replace(CONFIG.anneal, advance_at=1.0, retreat_at=1.0), steps=20)
    run = train(config, tmp_path / "run")
    assert run.progress().step == 20
    assert all(layer.diagonal.progress == 1 for layer in run.load_model().layers)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"anneal": AnnealConfig(steps=0)}, "anneal.steps must be positive"),
        ({"anneal": AnnealConfig(steps=5, advance_at=0.5, retreat_at=0.6)}, "retreat_at <= advance_at"),
        ({"anneal": AnnealConfig(steps=5, lr_factor=float("inf"))}, "lr_factor must be positive"),
        ({"anneal": AnnealConfig(order="top-down")}, "together, bottom-up"),
        ({"anneal": AnnealConfig(steps=5), "optim": OptimConfig(schedule="cosine")}, "hold-decay"),
        ({"evaluation": EvalConfig(keep="first")}, "best, last"),
    ],
)
def test_rules_that_cannot_be_are_refused(change, told):
    with pytest.raises(InvalidInputError, match=told):
        replace(CONFIG, **change).validate()
