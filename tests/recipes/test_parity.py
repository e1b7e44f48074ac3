"""The recipe that sets experiment beside theory."""

from dataclasses import replace

import pytest

from statetrack.layers import layers
from statetrack.models import ModelConfig
from statetrack.recipes import parity, recipes
from statetrack.training import EvalConfig, LengthConfig, OptimConfig
from statetrack.training.settings import check


def test_every_layer_has_a_run_that_can_begin(tmp_path):
    jobs = recipes.get("parity")().jobs(tmp_path)
    assert [job.config.layer for job in jobs] == layers.names()
    for job in jobs:
        check(job.config)
        needed = layers.get(job.config.layer).traits.needs
        assert {key: job.config.model.layer[key] for key in needed} == needed


def entry(layer, share):
    return {
        "layer": layer,
        "status": "done",
        "accuracy": {"40": 1.0, "256": share, "1000": 0.5},
        "steps": 7,
        "cpu_minutes": 0.25,
    }


@pytest.mark.parametrize(
    ("layer", "share", "row"),
    [
        ("pd-ssm", 1.0, "| pd-ssm | can | 100.0 | 100.0 | 50.0 | yes | 7 | 0.2 |"),
        ("pd-ssm", 0.99, "| pd-ssm | can | 100.0 | 99.0 | 50.0 | **no** | 7 | 0.2 |"),
        ("mamba", 0.5, "| mamba | cannot | 100.0 | 50.0 | 50.0 | yes | 7 | 0.2 |"),
        ("mamba", 1.0, "| mamba | cannot | 100.0 | 100.0 | 50.0 | **no** | 7 | 0.2 |"),
        ("transformer", 0.5, "| transformer | open | 100.0 | 50.0 | 50.0 |  | 7 | 0.2 |"),
    ],
)
def test_table_sets_theory_beside_experiment(layer, share, row):
    assert row in recipes.get("parity")().table({"runs": [entry(layer, share)]}).splitlines()


def test_a_run(tmp_path, monkeypatch):
    real = parity.default_config
    small = {
        "model": ModelConfig(d_model=4, layer={"d_state": 2}),
        "optim": OptimConfig(decay_steps=1),
        "lengths": LengthConfig(high=5, start=None),
        "evaluation": EvalConfig(every=2, n=4, high=41),
        "steps": 2,
        "batch_size": 4,
    }
    monkeypatch.setattr(parity, "default_config", lambda *where, **rest: replace(real(*where, **rest), **small))
    result = recipes.get("parity")().run(tmp_path, workers=0, observer=lambda line: None, only=["rnn-0"])
    (run,) = result["runs"]
    assert set(run["accuracy"]) == {"40", "256", "1000"}
    assert parity.is_right(run) == (run["accuracy"]["256"] >= 0.999)
