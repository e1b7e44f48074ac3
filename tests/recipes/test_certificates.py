"""The recipe that holds trained networks against every word, on weights that are right and on weights that are not."""

from dataclasses import replace

import numpy as np
import torch

from statetrack.recipes import certificates, recipes
from statetrack.recipes.defaults import default_config
from statetrack.training import OptimConfig, Run, constructed, train
from statetrack.training.settings import check


def exact_run(path):
    """Exact weights for parity, moved by less than anything notices."""
    config = replace(default_config("flash-pd-ssm", "parity"), init="exact", steps=1)
    return train(replace(constructed(config), optim=OptimConfig(lr=1e-30, min_lr=1e-30)), path)


def test_jobs_can_begin(tmp_path):
    jobs = recipes.get("certificates")().jobs(tmp_path)
    assert len(jobs) == len(certificates.NETWORKS)
    for job in jobs:
        check(job.config)


def test_a_right_network_is_certified_and_makes_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "MILLION", 25_000)
    run = exact_run(tmp_path / "parity-0")
    found = recipes.get("certificates")().measure(run)
    assert found["verdict"] == found["snapped"]["verdict"] == "certified"
    assert found["errors_in_a_million"] == found["snapped"]["errors_in_a_million"] == 0
    assert (run.path / "certificate.json").exists()
    accuracy = {"40": 1.0, "256": 1.0, "1000": 1.0}
    entry = {"run": "parity-0", "layer": "flash-pd-ssm", "task": "parity", "status": "done", "accuracy": accuracy}
    row = recipes.get("certificates")().table({"runs": [{**entry, "measured": found}]}).splitlines()[2]
    assert row.startswith("| parity | `flash-pd-ssm` | parity | 100.0 | 100.0 | 100.0 | certified | ")
    assert row.endswith(" | 0 | certified | 0 |")


def test_errors_of_a_constant_answer_are_counted(tmp_path):
    """A network that always gives one answer errs where the parity is the other: at about every other prefix."""
    run = exact_run(tmp_path / "run")
    model = run.load_model()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.eye(len(model.head.bias))[run.task.sample(1, 3, np.random.default_rng(0)).targets[0, -1]])
    broken = Run.open(run.path)
    broken.load_model = lambda: model
    wrong = certificates.errors_on_a_long_word(broken, 12_345)
    assert abs(wrong - 12_345 / 2) < 5 * 12_345**0.5
