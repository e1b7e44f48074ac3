"""The four-task recipe: its protocol, its published rows, its files."""

import json
import statistics
from dataclasses import replace

import pytest

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.models import ModelConfig
from statetrack.recipes import fsa, recipes
from statetrack.recipes.defaults import default_config
from statetrack.recipes.fsa_published import PUBLISHED, TASKS
from statetrack.tasks import make_task, tasks
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig, build_model

ROW_NAMES = [row.published for row in fsa.ROWS]


def test_rows_are_published():
    assert set(PUBLISHED) - set(ROW_NAMES) == {"sLSTM", "xLSTM[1:1]", "chance"}
    assert len(set(ROW_NAMES)) == len({row.name for row in fsa.ROWS}) == len(fsa.ROWS)


def test_published_rows_average_to_the_published_averages():
    averages = {"LSTM": 100.0, "sLSTM": 65.1, "xLSTM[1:1]": 70.5, "Transformer": 47.7, "Mamba": 58.9, "Mamba-3": 73.0}
    averages |= {"D-SLiCE": 72.6, "C-diagonal": 73.6, "DeltaNet": 62.5, "DeltaNet[-1,1]": 77.7, "Gated DeltaNet": 63.3}
    averages |= {"Gated DeltaProduct[-1,1]": 80.7, "RWKV-7": 54.1, "DPLR-SLiCE": 85.1, "WH-SLiCE": 64.5, "BD-SLiCE": 83.8}
    averages |= {"D-DE-SLiCE": 85.1, "PD-SSM": 98.8, "Flash PD-SSM": 96.3, "chance": 35.0}
    assert averages.keys() == PUBLISHED.keys()
    for name, cells in PUBLISHED.items():
        assert statistics.mean(mean for mean, _ in cells) == pytest.approx(averages[name], abs=0.08), name


def test_cpu_preset_holds_the_asked_for_runs(tmp_path):
    names = [job.out.name for job in recipes.get("fsa")("cpu").jobs(tmp_path)]
    assert len(names) == len(set(names)) == 2 * (3 * 5 + 3) + 15 * 4
    for layer in ("flash-pd-ssm", "pd-ssm"):
        assert sum(name.startswith(f"{layer}-modular-arithmetic") for name in names) == 3
        assert sum(name.startswith(f"{layer}-parity") for name in names) == 5


@pytest.mark.parametrize("preset", ["cpu", "paper"])
def test_protocol_of_every_run(preset, tmp_path):
    for job in recipes.get("fsa")(preset).jobs(tmp_path):
        lengths, held_out = job.config.lengths, job.config.evaluation
        assert (lengths.low, lengths.high, held_out.low, held_out.high, job.pooled) == (3, 40, 40, 256, (40, 256))
        task = make_task(job.config.task, **job.config.task_options)
        build_model(replace(job.config, model=job.config.model), task)
        job.config.validate()


def test_paper_preset_has_the_published_size():
    config = fsa.paper_config("pd-ssm", "parity", 0)
    model = build_model(config, make_task("parity"))
    assert sum(p.numel() for p in model.parameters()) == 660_739
    assert (config.steps, config.batch_size, config.optim.lr, config.optim.min_lr) == (100_001, 256, 2e-3, 1e-5)


@pytest.mark.parametrize("task", list(tasks))
@pytest.mark.parametrize("layer", ["flash-pd-ssm", "pd-ssm", "lstm"])
def test_defaults_fit_every_task(layer, task):
    config = default_config(layer, task, layer_options={"d_state": 70})
    config.validate()
    assert config.lengths.low >= make_task(task).min_length
    assert config.model.layer["d_state"] == 70


@pytest.fixture
def tiny(monkeypatch):
    def config(layer, task, *, seed=0, layer_options=None):
        return TrainConfig(
            layer,
            task,
            model=ModelConfig(d_model=4, layer={} if layer == "transformer" else {"d_state": 2}),
            optim=OptimConfig(decay_steps=2),
            lengths=LengthConfig(high=5, start=None),
            evaluation=EvalConfig(every=2, n=4, high=41),
            seed=seed,
            steps=3,
            batch_size=4,
        )

    monkeypatch.setattr(fsa, "default_config", config)
    monkeypatch.setattr(fsa, "LENGTHS", (5, 6, 7, 8))
    monkeypatch.setattr(fsa, "POOLED", (5, 8))


def test_runs_are_written_and_not_repeated(tmp_path, tiny):
    recipe = recipes.get("fsa")("cpu")
    only = ("lstm-parity-0", "flash-pd-ssm-parity-[01]")
    lines = []
    result = recipe.run(tmp_path, workers=0, observer=lines.append, only=only)
    assert json.loads((tmp_path / "fsa_cpu.json").read_text()) == result
    assert {(r["layer"], r["task"], r["seed"], r["status"]) for r in result["runs"]} == {
        ("lstm", "parity", 0, "done"),
        ("flash-pd-ssm", "parity", 0, "done"),
        ("flash-pd-ssm", "parity", 1, "done"),
    }
    for entry in result["runs"]:
        assert set(entry["accuracy"]) == {"5", "6", "7", "8"}
        assert 0 <= entry["pooled"] <= 1
        assert entry["settings"]["task"] == entry["task"]
        assert entry["revision"].startswith("statetrack ")
    assert len(lines) == 3
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/checkpoints/*/model.safetensors")}
    again = recipe.run(tmp_path, workers=0, observer=lines.append, only=only)
    assert again == result
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/checkpoints/*/model.safetensors")}


def test_table_reports_mean_spread_and_worst():
    runs = [
        {"run": f"pd-ssm-{task}-{seed}", "task": task, "status": "done", "pooled": share, "cpu_minutes": 1.0}
        for task in TASKS
        for seed, share in enumerate((0.98, 1.0))
    ]
    row = next(line for line in recipes.get("fsa")().table({"runs": runs}).splitlines() if "**pd-ssm**" in line)
    assert row.count("99.0 ± 1.4 (98.0)") == 4
    table = recipes.get("fsa")().table({"runs": runs})
    assert all(f"| {name} (published)" in table for name in ROW_NAMES)


def test_bad_choices_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="cpu"):
        recipes.get("fsa")("cpuu")
    with pytest.raises(UnknownNameError, match="fsa"):
        recipes.get("fas")
    with pytest.raises(InvalidInputError, match="nothing-like-it"):
        recipes.get("fsa")().run(tmp_path, only=("nothing-like-it",))
