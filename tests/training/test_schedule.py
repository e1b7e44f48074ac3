"""Optimiser groups, learning-rate schedules, annealing and curricula, against their definitions."""

import math

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig, Tagger
from statetrack.tasks import stream
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.curriculum import Curriculum
from statetrack.training.optim import learning_rate, parameter_groups, progress


def test_embeddings_and_vectors_are_free_of_decay():
    model = Tagger("mamba", 5, 3, ModelConfig(d_model=8, n_layers=1))
    decay, free = parameter_groups(model, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    decayed, spared = ({names[id(p)] for p in group["params"]} for group in (decay, free))
    assert decayed.isdisjoint(spared)
    assert decayed | spared == set(names.values())
    assert "embedding.weight" in spared
    assert "blocks.0.layer.A_log" in spared
    assert all(name.endswith("weight") for name in decayed)
    assert (decay["weight_decay"], free["weight_decay"]) == (0.1, 0.0)


def test_cosine_schedule_is_the_published_one():
    config = OptimConfig(schedule="cosine", lr=2e-3, min_lr=1e-5, warmup=0.1)
    rates = [learning_rate(step, 1000, None, config) for step in range(1001)]
    assert rates[:100] == pytest.approx([2e-3 * (i + 1) / 100 for i in range(100)])
    for step in (100, 333, 777, 1000):
        expected = 1e-5 + (2e-3 - 1e-5) / 2 * (1 + math.cos(math.pi * (step - 100) / 900))
        assert rates[step] == pytest.approx(expected, rel=1e-12)


def test_hold_decay_holds_until_it_is_told_to_decay():
    config = OptimConfig(schedule="hold-decay", lr=1e-3, min_lr=0.0, warmup=0.01, decay_steps=50)
    assert {learning_rate(step, 1000, None, config) for step in range(10, 1000)} == {1e-3}
    assert learning_rate(400, 1000, 400, config) == 1e-3
    assert learning_rate(425, 1000, 400, config) == pytest.approx(5e-4)
    assert learning_rate(450, 1000, 400, config) == pytest.approx(0.0)


def test_annealing_is_complete_before_training_ends():
    held = OptimConfig(schedule="hold-decay", decay_steps=50)
    assert progress(399, 1000, None, held) == 0.0
    assert progress(420, 1000, 400, held) == pytest.approx(0.5)
    assert progress(440, 1000, 400, held) == 1.0
    cosine = OptimConfig(schedule="cosine", anneal_from=0.5)
    assert progress(500, 1000, None, cosine) == 0.0
    assert progress(725, 1000, None, cosine) == pytest.approx(0.5)
    assert progress(951, 1000, None, cosine) == 1.0


def test_curriculum_grows_when_a_stage_is_learnt():
    config = LengthConfig(low=3, high=40, start=6, growth=1.5, threshold=0.9)
    stage = Curriculum.begin(config)
    seen = [int(stage.longest)]
    for _ in range(4000):
        stage.update(1.0, config)
        if int(stage.longest) != seen[-1]:
            seen.append(int(stage.longest))
            assert stage.accuracy < 0.5
    assert seen == [6, 9, 13, 20, 30, 40]
    assert stage.complete(config)
    stage.update(0.0, config)
    assert stage.accuracy < 1
    before = stage.longest
    for _ in range(400):
        stage.update(0.5, config)
    assert stage.longest == before
    assert not stage.complete(config)


def test_curriculum_retreats_from_a_stage_that_is_too_hard():
    config = LengthConfig(high=40, start=6, growth=1.5, threshold=0.9, retreat=0.7)
    stage = Curriculum(longest=13.5, accuracy=0.45)
    for _ in range(149):
        stage.update(0.5, config)
    assert stage.longest == 13.5
    stage.update(0.5, config)
    assert stage.longest == 9.0
    for _ in range(1000):
        stage.update(0.5, config)
    assert stage.longest == 6.0
    for _ in range(1000):
        stage.update(0.8, config)
    assert stage.longest == 6.0


@pytest.mark.parametrize("mixed", [True, False])
def test_curriculum_draws_lengths_in_its_stage(mixed):
    config = LengthConfig(low=3, high=40, start=9, mixed=mixed)
    drawn = [Curriculum.begin(config).draw(64, config, stream(0, "train", i)) for i in range(60)]
    assert {int(n) for lengths in drawn for n in lengths} == set(range(3, 10))
    assert all((len(np.unique(lengths)) > 1) == mixed for lengths in drawn)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"batch_size": -1}, "batch_size"),
        ({"lengths": LengthConfig(low=9, high=3)}, "9..3"),
        ({"lengths": LengthConfig(growth=1.0)}, "growth"),
        ({"lengths": LengthConfig(start=2)}, "start"),
        ({"optim": OptimConfig(warmup=1.5)}, "warmup"),
        ({"optim": OptimConfig(schedule="linear")}, "linear"),
        ({"optim": OptimConfig(lr=float("nan"))}, "lr"),
        ({"evaluation": EvalConfig(every=0)}, "every"),
    ],
)
def test_impossible_configurations_are_refused(change, named):
    with pytest.raises(InvalidInputError, match=named):
        TrainConfig("lstm", "parity", **change).validate()


def test_configuration_survives_json():
    import json

    config = TrainConfig("lstm", "parity", {"format": "slice"}, model=ModelConfig(d_model=8), lengths=LengthConfig(start=None))
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": "red"}, "colour is unknown"),
        ({"steps": "many"}, "steps must be a whole number, got 'many'"),
        ({"steps": True}, "steps must be a whole number"),
        ({"optim": {"lr": None}}, r"optim\.lr must be a number"),
        ({"optim": {"speed": 1}}, r"optim\.speed is unknown"),
        ({"optim": 3}, "optim must hold names and values"),
        ({"lengths": {"start": "short"}}, r"lengths\.start must be a whole number or null"),
    ],
)
def test_edited_configurations_are_refused_by_name(change, told):
    with pytest.raises(InvalidInputError, match=told):
        TrainConfig.from_dict({**TrainConfig("lstm", "parity").to_dict(), **change})


def test_numbers_may_be_whole_and_names_may_be_left_out():
    assert TrainConfig.from_dict({"layer": "lstm", "task": "parity", "optim": {"lr": 1}}).optim.lr == 1
    with pytest.raises(InvalidInputError, match="task is missing"):
        TrainConfig.from_dict({"layer": "lstm"})
