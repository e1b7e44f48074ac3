"""Starts from exact weights and near them, against the task's own automaton."""

from dataclasses import replace

import pytest
import torch

from statetrack.cli.config_options import parse_config
from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig
from statetrack.tasks import make_task, stream
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig, constructed, train
from statetrack.training.run import build_model
from statetrack.training.settings import check
from statetrack.training.start import initial_model

S3 = TrainConfig("complex-diagonal", "group-word", {"group": "S3"}, init="exact")


def errors(config, length=200):
    """Wrong labels of the initial model on random words; the labels come from the task."""
    task = make_task(config.task, **config.task_options)
    batch = task.sample(4, length, stream(5, "test"))
    with torch.no_grad():
        found = initial_model(config, task)(batch.inputs)[0].argmax(-1)
    return int((found != batch.targets)[batch.mask].sum())


@pytest.mark.parametrize("layer", ["complex-diagonal", "aussm", "flash-pd-ssm"])
def test_exact_starts_make_no_errors(layer):
    config = constructed(replace(S3, layer=layer))
    check(config)
    assert errors(config) == 0
    assert errors(replace(config, init="random")) > 0


def test_labels_at_the_last_token_and_classes_that_no_word_has():
    for options in ({"group": "C5", "label": "last"}, {"group": "D4", "alphabet": "generators"}):
        assert errors(constructed(replace(S3, task_options=options))) == 0
    cycles = TrainConfig("flash-pd-ssm", "cycle-navigation", init="exact")
    assert errors(constructed(cycles)) == 0


def test_noise_is_as_large_as_stated_and_depends_on_seed_and_attempt():
    exact = constructed(S3)
    task = make_task("group-word", group="S3")
    start = dict(initial_model(exact, task).named_parameters())
    near = replace(exact, init="near-exact", init_scale=0.05)
    moved = dict(initial_model(near, task).named_parameters())
    for name, before in start.items():
        entries = before.detach()[before.detach() != 0]
        if before.numel() < 50:  # too few to tell a deviation by
            continue
        size = entries.square().mean().sqrt().item() if entries.numel() else 0.0
        assert (moved[name] - before).square().mean().sqrt().item() == pytest.approx(0.05 * size, rel=0.3), name
    again, other = initial_model(near, task), initial_model(replace(near, seed=1), task)
    attempt = initial_model(near, task, attempt=1)
    assert torch.equal(again.head.weight, moved["head.weight"])
    assert not torch.equal(other.head.weight, moved["head.weight"])
    assert not torch.equal(attempt.head.weight, moved["head.weight"])


def test_random_starts_are_as_before():
    config = TrainConfig("complex-diagonal", "group-word", {"group": "S3"}, model=ModelConfig(d_model=8))
    task = make_task("group-word", group="S3")
    assert torch.equal(initial_model(config, task).head.weight, build_model(config, task).head.weight)


def test_a_run_from_near_exact_weights_trains_and_can_be_opened(tmp_path):
    config = replace(
        constructed(replace(S3, init="near-exact", init_scale=1e-4)),
        steps=3,
        batch_size=4,
        lengths=LengthConfig(low=1, high=8, start=None),
        evaluation=EvalConfig(every=3, low=8, high=8, n=8),
        optim=OptimConfig(lr=1e-6, decay_steps=2),
    )
    run = train(config, tmp_path / "run")
    assert run.progress().validation == 1.0
    assert run.evaluate([40], n=4)["accuracy"][40] == 1.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layer": "lstm"}, "no construction for lstm"),
        ({"layer": "mamba"}, "init='exact' is not possible for mamba on group-word"),
        ({"layer": "aussm|mamba"}, "one layer"),
        ({"model": ModelConfig(d_model=7)}, r"d_model=.*\(got 7\)"),
        ({"init": "near"}, "near-exact"),
        ({"init_scale": -1.0}, "init_scale"),
        ({"init_scale": float("nan")}, "init_scale"),
    ],
)
def test_what_cannot_start_is_refused(changes, told):
    with pytest.raises(InvalidInputError, match=told):
        check(replace(constructed(S3), **changes))


def test_the_command_line_takes_the_stack_of_the_construction():
    argv = ["--init", "near-exact", "--init-scale", "0.003", "--task.group", "A4"]
    config = parse_config("aussm", "group-word", argv, "x")[0]
    assert (config.init, config.init_scale, config.model.n_layers) == ("near-exact", 0.003, 2)
    check(config)
    config = parse_config("aussm", "group-word", [*argv, "--model.d-model", "9"], "x")[0]
    with pytest.raises(InvalidInputError, match=r"d_model=\d+ \(got 9\)"):
        check(config)
