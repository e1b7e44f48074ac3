"""The loop: exact resume, restarts, failure, evaluation in blocks, several processes."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from statetrack.errors import NumericalError, RunError
from statetrack.models import ModelConfig
from statetrack.tasks import make_task
from statetrack.training import AnnealConfig, EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig, build_model, resume, train
from statetrack.training import checkpoint as checkpoint_module
from statetrack.training import trainer as trainer_module
from statetrack.training.evaluate import count_correct, evaluation_set
from statetrack.training.objective import Objective
from statetrack.training.trainer import Trainer

LAYER = {"d_state": 4, "n_heads": 2, "dictionary_size": 3, "modulus": "annealed"}
CONFIG = TrainConfig(
    "flash-pd-ssm",
    "parity",
    model=ModelConfig(d_model=8, n_layers=2, residual=True, dropout=0.1, layer=LAYER),
    optim=OptimConfig(decay_steps=10),
    lengths=LengthConfig(high=12, start=4),
    evaluation=EvalConfig(every=10, low=5, high=20, n=16),
    steps=40,
    batch_size=8,
    checkpoint_every=10,
)


class Stop(Exception):
    """Stands in for a crash."""


def stop_at(step):
    def observer(record):
        if record["step"] == step:
            raise Stop

    return observer


def weights(run):
    return run.load_model().state_dict()


def assert_same(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("crash", [7, 25])
def test_resumed_run_equals_one_that_never_stopped(tmp_path, crash):
    whole = train(CONFIG, tmp_path / "whole")
    with pytest.raises(Stop):
        train(CONFIG, tmp_path / "broken", observer=stop_at(crash))
    broken = resume(tmp_path / "broken")
    assert_same(weights(whole), weights(broken))
    skip = {"cpu_seconds"}
    strip = [[{k: v for k, v in r.items() if k not in skip} for r in run.metrics()] for run in (whole, broken)]
    assert strip[0] == strip[1]
    assert whole.progress().finished


@pytest.mark.parametrize("crash", [7, 23, 31])
def test_resumed_run_remembers_its_best_weights_and_its_annealing(tmp_path, crash, monkeypatch):
    """Validation is scripted: the best one, at step 20, is neither the last nor that of a checkpoint after the crash."""
    scripted = dict(zip(range(10, 50, 10), [0.5, 0.9, 0.9 - 1e-9, 0.1], strict=True))
    paced = replace(CONFIG, anneal=AnnealConfig(steps=5, advance_at=0.0, retreat_at=0.0))
    paced = replace(paced, lengths=LengthConfig(high=4, start=4, threshold=0.0), optim=OptimConfig(decay_steps=20), steps=40)
    trainers, seen = [], {}

    def validate(model, words):
        step = trainers[-1].progress.step
        seen.setdefault(step, {name: tensor.clone() for name, tensor in model.state_dict().items()})
        return scripted[step]

    began = Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", lambda self, *args: (trainers.append(self), began(self, *args))[1])
    monkeypatch.setattr(trainer_module, "pooled_accuracy", validate)
    whole = train(paced, tmp_path / "whole")
    with pytest.raises(Stop):
        train(paced, tmp_path / "broken", observer=stop_at(crash))
    broken = resume(tmp_path / "broken")
    assert_same(weights(whole), seen[20])
    assert_same(weights(broken), seen[20])
    assert whole.progress().validation == 0.9 and not list(whole.checkpoint_folder.glob("*-00000040/best*"))
    last = train(replace(paced, evaluation=replace(paced.evaluation, keep="last")), tmp_path / "last")
    assert_same(weights(last), seen[40])


def test_global_random_state_is_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(replace(CONFIG, steps=12), tmp_path / "run")
    assert torch.equal(before, torch.get_rng_state())


def test_seed_decides_everything(tmp_path):
    first, second, other = (train(replace(CONFIG, seed=s), tmp_path / str(i)) for i, s in enumerate((3, 3, 4)))
    assert_same(weights(first), weights(second))
    assert not torch.equal(weights(first)["head.weight"], weights(other)["head.weight"])


def test_finished_run_resumes_to_itself(tmp_path):
    run = train(CONFIG, tmp_path / "run")
    before = weights(run)
    assert_same(before, weights(resume(tmp_path / "run")))


def test_stuck_attempt_starts_over_with_other_weights(tmp_path):
    hopeless = replace(CONFIG, restart_after=10, lengths=LengthConfig(high=12, start=4, threshold=1.1), steps=40)
    run = train(hopeless, tmp_path / "run")
    assert run.progress().attempt == 2
    task = make_task("parity")
    a, b = (build_model(hopeless, task, attempt).head.weight for attempt in (0, 1))
    assert not torch.equal(a, b)


def test_loss_that_is_not_a_number_stops_and_keeps_the_batch(tmp_path, monkeypatch):
    calls = []

    def broken(self, batch):
        calls.append(batch)
        outcome = original(self, batch)
        return outcome._replace(loss=outcome.loss * float("nan")) if len(calls) == 15 else outcome

    original = Objective.forward
    monkeypatch.setattr(Objective, "forward", broken)
    with pytest.raises(NumericalError, match=r"step 14.*failed_batch"):
        train(CONFIG, tmp_path / "run")
    from safetensors.torch import load_file

    kept = load_file(tmp_path / "run" / "failed_batch.safetensors")
    assert torch.equal(kept["inputs"], calls[-1].inputs)
    assert Run.open(tmp_path / "run").progress().step == 10


def test_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    original = checkpoint_module.write_json
    calls = []

    def full(path, data):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path, data)

    monkeypatch.setattr(checkpoint_module, "write_json", full)
    with pytest.raises(RunError, match=r"step 20.*No space left.*step-00000010"):
        train(CONFIG, tmp_path / "run")
    monkeypatch.undo()
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000010"]
    assert_same(weights(train(CONFIG, tmp_path / "whole")), weights(resume(tmp_path / "run")))


def test_folder_in_use_or_of_another_version_is_refused(tmp_path):
    train(replace(CONFIG, steps=11), tmp_path / "run")
    with pytest.raises(RunError, match="already exists"):
        train(CONFIG, tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**stored, "format": 99, "statetrack": "9.0"}))
    with pytest.raises(RunError, match=r"statetrack 9\.0"):
        Run.open(tmp_path / "run")
    with pytest.raises(RunError, match="not a run folder"):
        Run.open(tmp_path)


def test_run_that_is_being_trained_is_not_continued(tmp_path):
    def intrude(record):
        if record["step"] == 11:
            with pytest.raises(RunError, match="another process"):
                resume(tmp_path / "run")

    run = train(replace(CONFIG, steps=12), tmp_path / "run", observer=intrude)
    assert run.progress().finished


def test_damaged_checkpoint_is_named(tmp_path):
    run = train(replace(CONFIG, steps=11), tmp_path / "run")
    (run.latest_checkpoint() / "model.safetensors").write_bytes(b"not a file of tensors")
    with pytest.raises(RunError, match=r"model|damaged|fit"):
        run.load_model()


@pytest.mark.parametrize("layer", ["flash-pd-ssm", "mamba", "lstm"])
def test_evaluation_in_blocks_equals_one_pass(layer, monkeypatch):
    from statetrack.training import evaluate

    task = make_task("cycle-navigation")
    config = TrainConfig(layer, "cycle-navigation", model=ModelConfig(d_model=8, layer={"d_state": 4}))
    model = build_model(config, task)
    batches = evaluation_set(task, 3, 30, 64, 0, "test")
    whole = [count_correct(model, batch) for batch in batches]
    with torch.no_grad():
        by_hand = sum(int((model(row.inputs)[0].argmax(-1) == row.targets)[row.mask].sum()) for row in batches)
    monkeypatch.setattr(evaluate, "_BLOCK", 7)
    assert [count_correct(model, batch) for batch in batches] == whole
    assert sum(hits for hits, _ in whole) == by_hand


def test_packed_objective_equals_padded_rows():
    task = make_task("cycle-navigation")
    from statetrack.tasks import stream, uniform_lengths

    generator = stream(0, "train", 0)
    batch = task.sample(16, uniform_lengths(16, 3, 12, generator), generator)
    model = build_model(replace(CONFIG, task="cycle-navigation", model=replace(CONFIG.model, dropout=0.0)), task).double()
    objective = Objective(model)
    assert objective.packs
    outcome = objective(batch)
    scores = model(batch.inputs)[0][batch.mask]
    expected = torch.nn.functional.cross_entropy(scores, batch.targets[batch.mask], reduction="sum")
    assert torch.allclose(outcome.loss, expected, rtol=1e-10)
    assert outcome.labels == 16


def test_two_processes_take_the_same_steps_as_one(tmp_path):
    """Gradients of two halves average to that of the whole, so weights agree to rounding."""
    script = tmp_path / "job.py"
    config = replace(CONFIG, model=replace(CONFIG.model, dropout=0.0), layer="lstm", steps=12)
    config = replace(config, model=replace(config.model, layer={"d_state": 4}))
    script.write_text(
        "import json, pathlib, sys\nfrom statetrack.training import TrainConfig, train\n"
        f"train(TrainConfig.from_dict(json.loads({json.dumps(config.to_dict())!r})), sys.argv[1])\n"
        "names = [path.read_text() for path in pathlib.Path('/proc/self/task').glob('*/comm')]\n"
        "assert not any('gloo' in name for name in names), names\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
        str(tmp_path / "two"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    one, two = weights(train(config, tmp_path / "one")), weights(Run.open(Path(tmp_path / "two")))
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)
