"""MAD: six small tasks, each of which one ability decides, with a limited set of examples.

Each number is accuracy over all labels of fresh test data, measured once, of the run that validation prefers where there are
several. The published scores are averaged over classes and batches, over all settings of a task, and select on the reported data.
Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.mad_published import PUBLISHED
from statetrack.recipes.mad_settings import TASKS, Setting, mad_settings
from statetrack.recipes.runs import RunsRecipe
from statetrack.tasks import make_task
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

LAYERS = ("mamba2", "deltanet", "flash-pd-ssm", "deltanet|flash-pd-ssm", "transformer")
NAMES = {"deltanet|flash-pd-ssm": "delta-pd"}
"""What stacks are called in the names of runs."""
RATES, DECAYS = (1e-4, 5e-4, 1e-3), (0.0, 0.1)
EPOCHS, BATCH, N_TEST = 200, 128, 1280
_PD: dict[str, Any] = {"n_heads": 4, "d_state": 16, "dictionary_size": 8, "d_field": "real"}


def cpu_config(layer: str, setting: Setting, seed: int) -> TrainConfig:
    """Two blocks of width 32; at most 2,000 steps of 32 sequences, fewer where validation is perfect before."""
    return _config(
        layer,
        setting,
        seed,
        model=ModelConfig(d_model=32, n_layers=2, norm="pre", residual=True, feedforward=2),
        optim=OptimConfig(lr=5e-3, schedule="cosine", warmup=0.05),
        steps=2000,
        batch_size=32,
        n_validation=256,
    )


def paper_config(layer: str, setting: Setting, seed: int, *, lr: float, weight_decay: float) -> TrainConfig:
    """The published size, budget and constant learning rate: width 128, 200 epochs of batch 128."""
    return _config(
        layer,
        setting,
        seed,
        model=ModelConfig(d_model=128, n_layers=2, norm="pre", residual=True, feedforward=4),
        optim=OptimConfig(lr=lr, min_lr=lr, weight_decay=weight_decay, schedule="cosine", warmup=0.0, clip=0.0),
        steps=-(-EPOCHS * setting.options["n_examples"] // BATCH),
        batch_size=BATCH,
        n_validation=N_TEST,
    )


def _config(
    layer: str,
    setting: Setting,
    seed: int,
    *,
    model: ModelConfig,
    optim: OptimConfig,
    steps: int,
    batch_size: int,
    n_validation: int,
) -> TrainConfig:
    task, length = f"mad-{setting.task}", setting.length
    options = _PD if layer == "flash-pd-ssm" else {}
    options = {f"flash-pd-ssm.{key}": value for key, value in _PD.items()} if "|" in layer else options
    return TrainConfig(
        layer,
        task,
        task_options=dict(setting.options),
        model=replace(model, read_at=make_task(task).read_at, layer=options),
        optim=optim,
        lengths=LengthConfig(low=length, high=length, start=None, threshold=0.0),
        evaluation=EvalConfig(every=100, low=length, high=length, n=n_validation, stop_at=0.999),
        seed=seed,
        steps=steps,
        batch_size=batch_size,
    )


@register("mad")
class MAD(RunsRecipe):
    """The table of six tasks. Presets: ``cpu`` (baseline settings) and ``paper`` (all 66 settings, six optimisers each)."""

    name = "mad"
    summary = "MAD: recall, memory, compression and copying, six tasks with few examples"
    presets = ("cpu", "paper")

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(config, out / name, (setting.length,), n=N_TEST)
            for setting in mad_settings(baseline_only=self.preset == "cpu")
            for layer in LAYERS
            for name, config in self._configs(layer, setting)
        ]

    def _configs(self, layer: str, setting: Setting) -> list[tuple[str, TrainConfig]]:
        name = run_name(layer, setting)
        if self.preset == "cpu":
            return [(f"{name}-0", cpu_config(layer, setting, 0))]
        return [
            (f"{name}-lr{lr:g}-wd{decay:g}-0", paper_config(layer, setting, 0, lr=lr, weight_decay=decay))
            for lr, decay in product(RATES, DECAYS)
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "settings": "baseline" if self.preset == "cpu" else "all 66, averaged within a task",
            "metric": "accuracy over all labels (micro)",
            "n_test": N_TEST,
            "split": "test, used once after training; validation selects among optimisers",
            "schedule": "cosine to 1e-5" if self.preset == "cpu" else "constant, as the released code runs it",
            "published": "accuracy averaged over classes per batch, all settings, selected on the reported data",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%) by task, then the published rows."""
        lines = ["| model | " + " | ".join(TASKS) + " | mean | CPU min per run |", "|---|" + "---|" * (len(TASKS) + 2)]
        done = [run for run in result["runs"] if run["status"] == "done"]
        for layer in LAYERS:
            runs = [run for run in done if run["layer"] == layer]
            if runs:
                lines.append(_row(layer, runs))
        for row in PUBLISHED:
            cells = " | ".join(f"{share:g}" for share in row.tasks)
            lines.append(f"| {row.model} (published, {row.source}) | {cells} | {row.mean:g} | |")
        return "\n".join(lines)


def run_name(layer: str, setting: Setting) -> str:
    """What the names of the runs of a model on a setting begin with."""
    return f"{NAMES.get(layer, layer)}-{setting.task}-{setting.change}"


def _row(layer: str, runs: list[dict[str, Any]]) -> str:
    cells, means = [], []
    for task in TASKS:
        best: dict[str, dict[str, Any]] = {}
        for run in runs:
            config = run["settings"]
            if run["task"] != f"mad-{task}":
                continue
            key = str((config["lengths"]["high"], config["task_options"]))
            if key not in best or run["validation"] > best[key]["validation"]:
                best[key] = run
        if not best:
            cells.append("not run")
            continue
        means.append(statistics.mean(100 * next(iter(run["accuracy"].values())) for run in best.values()))
        cells.append(f"{means[-1]:.1f}")
    mean = f"{statistics.mean(means):.1f}" if len(means) == len(TASKS) else ""
    minutes = statistics.mean(run["cpu_minutes"] for run in runs)
    return f"| **{NAMES.get(layer, layer)}** | " + " | ".join(cells) + f" | {mean} | {minutes:.1f} |"
