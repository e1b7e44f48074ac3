"""Length generalisation on four formal languages: trained on words of 3 to 40 tokens with the label at the last one, tested
on 40 to 256.

The published rows report the best validation accuracy of a run; ours are measured once, after training, on a test split that no
choice was made on. Source: PD-SSM (arXiv 2509.22284, Table 2), protocol of SLiCE (arXiv 2505.17761).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.fsa_published import PUBLISHED, PUBLISHED_NAMES, TASKS
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

LENGTHS = (40, 64, 128, 256, 1000, 10_000)
POOLED = (40, 256)
_MAIN = ("flash-pd-ssm", "pd-ssm")
_BASELINES = ("mamba", "lstm", "complex-diagonal", "transformer")


def paper_config(layer: str, task: str, seed: int) -> TrainConfig:
    """The published settings: two post-norm blocks, width and state 128, 100,001 steps of batch 256, no curriculum."""
    options: dict[str, Any] = {}
    if layer in (*_MAIN, "complex-diagonal"):
        options = {"d_state": 128, "magnitude_bias": None}
    if layer in _MAIN:
        options["dictionary_size"] = 8
    if layer == "pd-ssm":
        options["orientation"] = "row"
    return TrainConfig(
        layer,
        task,
        model=ModelConfig(d_model=128, n_layers=2, norm="post", dropout=0.01, layer=options),
        optim=OptimConfig(schedule="cosine", warmup=0.1, clip=0.0, anneal_from=1.0),
        lengths=LengthConfig(start=None),
        evaluation=EvalConfig(every=5000, n=8192, stop_at=0.9995),
        seed=seed,
        steps=100_001,
        batch_size=256,
        checkpoint_every=1000,
    )


@register("fsa")
class FSA(RunsRecipe):
    """The four-task table. Presets: ``cpu`` (what two cores can do) and ``paper`` (the published settings)."""

    name = "fsa"
    summary = "Length generalisation on parity, even pairs, cycle navigation and modular arithmetic: train 3-40, test 40-256"
    presets = ("cpu", "paper")

    def jobs(self, out: Path) -> list[Job]:
        """All runs: five seeds for the PD layers (three on arithmetic with ``cpu``), one for the others with ``cpu``."""
        make = paper_config if self.preset == "paper" else lambda layer, task, seed: default_config(layer, task, seed=seed)
        jobs = []
        for layer in (*_MAIN, *_BASELINES):
            for task in TASKS:
                for seed in range(self._n_seeds(layer, task)):
                    lengths = LENGTHS if layer in _MAIN else LENGTHS[: 4 if layer == "transformer" else 5]
                    config = make(layer, task, seed)
                    jobs.append(Job(config, out / f"{layer}-{task}-{seed}", lengths, n=512, pooled=POOLED))
        return jobs

    def _n_seeds(self, layer: str, task: str) -> int:
        if self.preset == "cpu" and layer not in _MAIN:
            return 1
        return 3 if self.preset == "cpu" and task == "modular-arithmetic" else 5

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [3, 40],
            "pooled_lengths": list(POOLED),
            "n_pooled": 8192,
            "n_per_length": 512,
            "split": "test, used once after training",
            "published": "best validation accuracy on the reported set, mean and standard deviation of five runs",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Pooled test accuracy (%), mean and deviation over seeds, worst seed in brackets; the published rows below."""
        lines = ["| layer | " + " | ".join(TASKS) + " | mean | CPU min per run |", "|---|" + "---|" * (len(TASKS) + 2)]
        for layer in (*_MAIN, *_BASELINES):
            runs = [run for run in result["runs"] if run["layer"] == layer and run["status"] == "done"]
            if runs:
                lines.append(_ours(layer, runs))
        names = {PUBLISHED_NAMES[layer] for layer in (*_MAIN, *_BASELINES)}
        for name, cells in PUBLISHED.items():
            mark = " (published)" if name in names else ""
            mean = statistics.mean(cell[0] for cell in cells)
            lines.append(f"| {name}{mark} | " + " | ".join(f"{a:.1f} ± {s:.1f}" for a, s in cells) + f" | {mean:.1f} | |")
        return "\n".join(lines)


def _ours(layer: str, runs: list[dict[str, Any]]) -> str:
    cells, means = [], []
    for task in TASKS:
        shares = [100 * run["pooled"] for run in runs if run["task"] == task]
        if not shares:
            cells.append("not run")
            continue
        means.append(statistics.mean(shares))
        spread = f" ± {statistics.stdev(shares):.1f} ({min(shares):.1f})" if len(shares) > 1 else ""
        cells.append(f"{means[-1]:.1f}{spread}")
    mean = f"{statistics.mean(means):.1f}" if len(means) == len(TASKS) else ""
    minutes = statistics.mean(run["cpu_minutes"] for run in runs)
    return f"| **{layer}** | " + " | ".join(cells) + f" | {mean} | {minutes:.1f} |"
