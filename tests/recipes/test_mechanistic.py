"""The recipes on mechanistic tasks: their settings, published numbers, runs and tables."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from statetrack.analysis.recency import model_influence
from statetrack.analysis.smoothing import sharpness
from statetrack.models import ModelConfig, Tagger
from statetrack.recipes import bottlenecks, length_stress, mad, recipes, state_size
from statetrack.recipes.depth_numbers import depth_numbers, random_words
from statetrack.recipes.mad_published import PUBLISHED
from statetrack.recipes.mad_settings import TASKS, mad_settings
from statetrack.tasks import make_task
from statetrack.theory.construct import construct
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig
from statetrack.training.distributed import Workers
from statetrack.training.settings import check
from statetrack.training.trainer import Trainer

RUNS = {"mad": 30, "bottlenecks": 72, "length-stress": 6, "state-size": 50}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_begin_and_no_two_share_a_folder(name, tmp_path):
    jobs = recipes.get(name)("cpu").jobs(tmp_path)
    assert len(jobs) == RUNS[name] == len({job.out for job in jobs})
    shapes = {}
    for job in jobs:
        job.config.validate()
        task = make_task(job.config.task, **job.config.task_options)
        assert min(job.config.lengths.low, job.config.evaluation.low, *job.lengths) >= task.min_length
        shapes[job.config.layer, job.config.task, job.config.model.n_layers] = job.config
    for config in shapes.values():
        check(config)


def test_mad_has_its_66_settings_and_six_optimisers_each(tmp_path):
    counts = Counter(setting.task for setting in mad_settings())
    assert counts == dict(zip(TASKS, (11, 11, 11, 6, 14, 13), strict=True))
    for setting in mad_settings():
        assert make_task(f"mad-{setting.task}", **{**setting.options, "n_examples": None}).min_length <= setting.length
    jobs = recipes.get("mad")("paper").jobs(tmp_path)
    assert len(jobs) == len({job.out for job in jobs}) == 66 * 6 * len(mad.LAYERS)
    steps = {job.config.steps for job in jobs}
    assert steps == {20_000, 10_000, 5000, 2500, 1250, 400}  # 200 epochs of 12800 to 800, and of 256, in batches of 128
    assert all(job.config.optim.min_lr == job.config.optim.lr for job in jobs)
    assert all(job.config.model.read_at == ("last" if "compression" in job.config.task else "each") for job in jobs)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.model}-{row.source}")
def test_published_means_are_those_of_the_tasks(row):
    # The rows are second-hand and rounded; within a source they average to what is printed.
    assert sum(row.tasks) / 6 == pytest.approx(row.mean, abs=0.12)


@pytest.mark.parametrize("variant", bottlenecks.PUBLISHED)
def test_published_recall_averages_to_what_is_printed(variant):
    *shares, mean = bottlenecks.PUBLISHED[variant]
    assert sum(shares) / 3 == pytest.approx(mean, abs=0.01)


def tiny(config: TrainConfig) -> TrainConfig:
    """The same run with next to no work."""
    length = config.lengths.low
    fixed = config.lengths.low == config.lengths.high
    return replace(
        config,
        model=replace(config.model, d_model=8, layer={}),
        optim=OptimConfig(decay_steps=1),
        lengths=LengthConfig(low=length, high=length + (0 if fixed else 4), start=None),
        evaluation=EvalConfig(every=2, n=4, low=length, high=length),
        steps=2,
        batch_size=4,
    )


@pytest.mark.parametrize(
    ("module", "maker", "only"),
    [
        (mad, "cpu_config", "delta-pd-memorization-baseline-0"),
        (bottlenecks, "recall_config", "one-and-zero-2-layers-4-pairs-0"),
        (length_stress, "stress_config", "mamba-flip-flop-0"),
        (state_size, "size_config", "maps-4-states-N3-0"),
    ],
)
def test_runs_and_tables(module, maker, only, tmp_path, monkeypatch):
    real = getattr(module, maker)
    monkeypatch.setattr(module, maker, lambda *where, **rest: tiny(real(*where, **rest)))
    monkeypatch.setattr(module, "N_TEST", 4)
    if hasattr(module, "LENGTHS"):
        monkeypatch.setattr(module, "LENGTHS", (40, 48))
    if module is bottlenecks:
        monkeypatch.setattr(module, "UNTRAINED", ())
    (cls,) = (recipes.get(name) for name in RUNS if recipes.get(name).__module__ == module.__name__)
    recipe = cls("cpu")
    result = recipe.run(tmp_path, workers=0, observer=lambda line: None, only=[only])
    (run,) = result["runs"]
    assert (run["run"], run["status"], run["error"]) == (only, "done", None)
    assert json.loads((tmp_path / f"{recipe.name}_cpu.json").read_text()) == result
    assert recipe.table(result) + "\n" == (tmp_path / f"{recipe.name}_cpu.md").read_text()


def entry(run, layer, accuracy, *, task="", validation=0.0, settings=None):
    return {
        "run": run,
        "layer": layer,
        "task": task,
        "status": "done",
        "accuracy": accuracy,
        "validation": validation,
        "steps": 9,
        "cpu_minutes": 1.0,
        "settings": settings or {},
    }


def test_the_table_of_mad_takes_the_optimiser_that_validation_prefers():
    def one(task, share, validation, n_examples=5):
        settings = {"lengths": {"high": 32}, "task_options": {"n_examples": n_examples}}
        return entry("x", "mamba2", {"32": share}, task=f"mad-{task}", validation=validation, settings=settings)

    runs = [one("compression", 0.5, 0.6), one("compression", 0.9, 0.4), one("compression", 0.7, 0.1, n_examples=6)]
    table = recipes.get("mad")().table({"runs": runs})
    assert "| **mamba2** | 60.0 | not run | not run | not run | not run | not run |  | 1.0 |" in table
    runs = [one(task, 0.25, 0.5) for task in TASKS]
    assert "| **mamba2** | " + "25.0 | " * 6 + "25.0 | 1.0 |" in recipes.get("mad")().table({"runs": runs})
    assert "| Mamba (published, a) | 52.7 | 6.7 | 90.4 | 89.5 | 90.1 | 86.3 | 69.3 | |" in table


def test_the_table_of_recall_sets_published_numbers_beside_ours():
    numbers = {"half_life": 14.04, "far_share": 0.0123, "relative": [1.0, 1.5], "states": [1.0, 0.25], "effective_rank": [9, 7]}
    runs = [
        {**entry(f"none-2-layers-{n}-pairs-0", "mamba", {"32": share}), "measured": numbers} for n, share in ((4, 1), (7, 0.5))
    ]
    untrained = [{"variant": "lru", "depth": 16, **numbers, "half_life": None, "states": [None]}]
    table = recipes.get("bottlenecks")().table({"runs": runs, "untrained": untrained}).splitlines()
    assert "| mamba, none | 2 | 100.0 | 50.0 | 75.0 | 98.4 | 81.8 | 36.0 | 72.1 |" in table
    assert "| mamba, zero | 4 | not run | not run |  | 99.7 | 92.2 | 52.2 | 81.4 |" in table
    assert not any(line.startswith("| mamba, one | 4") for line in table)  # neither ours nor theirs
    assert "| lru | 16 | nothing | does not fall | 1.23 | none | 1.50 | 7.00 |" in table
    assert "| mamba, none | 2 | 7 pairs | 14.0 | 1.23 | 0.25 | 1.50 | 7.00 |" in table


def test_numbers_by_depth_are_those_of_the_tools():
    torch.manual_seed(0)
    model = Tagger("mamba", 5, 2, ModelConfig(d_model=4, n_layers=2, norm="pre", residual=True, layer={"d_state": 2})).eval()
    words = random_words(5, 2, 16)
    found = depth_numbers(model, words)
    exact = model_influence(model, words, positions=[8, 12], probes=0)
    logs = torch.stack([exact[:, 0, 8 - d].log().mean() + exact[:, 1, 12 - d].log().mean() for d in range(9)]) / 2
    slopes = -logs[4:].diff()
    assert 0.5 * float(slopes.min()) < found["slope"] < 2 * float(slopes.max())
    assert found["half_life"] == pytest.approx(math.log(2) / found["slope"])
    assert len(found["relative"]) == 3 and len(found["states"]) == len(found["bounds"]) == 2
    assert found["relative"][0] == pytest.approx(sharpness(model.embedding(words)).relative, rel=1e-5)


def test_untrained_stacks_are_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(bottlenecks, "DEPTHS", (1,))
    monkeypatch.setattr(bottlenecks, "UNTRAINED", bottlenecks.UNTRAINED[:2])
    monkeypatch.setattr(bottlenecks, "WIDTH", 4)
    recipe = recipes.get("bottlenecks")()
    first = recipe.shared(tmp_path)
    assert [row["variant"] for row in first["untrained"]] == ["mamba", "polarized-mamba"]
    monkeypatch.setattr(bottlenecks, "depth_numbers", None)
    assert recipe.shared(tmp_path) == first


def test_the_table_of_lengths():
    accuracy = {"512": 1.0, "4096": 0.99, "16384": 0.5, "65536": 0.125}
    table = recipes.get("length-stress")().table({"runs": [entry("x", "mamba", accuracy, task="flip-flop")]})
    assert "| flip-flop | mamba | 100.0 | 99.0 | 50.0 | 12.5 | 9 | 1.0 |" in table


def test_the_table_of_sizes_names_the_smallest_that_works_and_what_four_times_as_many_reduce_to():
    def one(n, share, compressed=None):
        measured = {"used": min(n, 5), "compressed": compressed}
        accuracy = {"40": 1.0, "256": share}
        return {**entry(state_size.run_name("maps", 4, n), "flash-pd-ssm", accuracy), "measured": measured}

    shares = {2: 0.4, 3: 0.7, 4: 0.995, 8: 1.0}
    runs = [one(n, share) for n, share in shares.items()]
    table = recipes.get("state-size")("cpu").table
    cells = "2: 40.0 (2), 3: 70.0 (3), 4: 99.5 (4), 8: 100.0 (5)"
    assert f"| maps | 4 | {cells} | 4 | 4 | not run |" in table({"runs": runs})
    exact = {"d_state": 4, "accuracy": 1.0, "exact": True}
    wrong = {"d_state": 6, "accuracy": 0.5, "exact": False}
    assert "| 16: 100.0 (5) | 16 | 4 | 4 (the automaton itself) |" in table({"runs": [one(16, 1.0, exact)]})
    assert "| 16: 40.0 (5) | none | 4 | 6 (50.0 % right) |" in table({"runs": [one(16, 0.4, wrong)]})
    assert "| 16: 40.0 (5) | none | 4 | none |" in table({"runs": [one(16, 0.4)]})
    assert state_size.smallest_working({2: 0.4}) is None
    assert state_size.sizes(64) == [32, 63, 64, 128, 256]


def test_a_model_with_states_to_spare_is_reduced_to_its_automaton(tmp_path):
    """Exact weights for three states, written into a layer with eight: three are used, and three are what is left."""
    config = state_size.size_config("maps", 3, 8, 0)
    task = make_task(config.task, **config.task_options)
    exact = construct("flash-pd-ssm", task.automaton)
    small = {**exact.config.layer, "d_state": 8}
    wide = Tagger("flash-pd-ssm", task.vocab_size, task.n_classes, replace(exact.config, d_model=8, layer=small))
    with torch.no_grad():
        for parameter in wide.parameters():
            parameter.zero_()
        for name, parameter in wide.named_parameters():
            given = exact.state_dict()[name]
            parameter[tuple(slice(0, size) for size in given.shape)] = given
    config = replace(config, model=replace(exact.config, d_model=8, layer=small), steps=1)
    run = Run.create(tmp_path / "run", config)
    trainer = Trainer(run, Workers.join(), None)
    trainer.model.load_state_dict(wide.state_dict())
    trainer.save()
    found = state_size.StateSize("cpu").measure(run)
    assert found["used"] == 3
    assert found["compressed"] == {"d_state": 3, "accuracy": 1.0, "exact": True, "unexplained": 0.0}
