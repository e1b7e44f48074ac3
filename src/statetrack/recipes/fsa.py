"""Length generalisation on four formal languages: trained on words of 3 to 40 tokens with the label at the last one, tested
on 40 to 256.

The published rows report the best validation accuracy of a run; ours are measured once, after training, on a test split that no
choice was made on. Source: PD-SSM (arXiv 2509.22284, Table 2), protocol of SLiCE (arXiv 2505.17761).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.fsa_published import PUBLISHED, TASKS
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

LENGTHS = (40, 64, 128, 256, 1000, 10_000)
POOLED = (40, 256)
_MAIN = ("flash-pd-ssm", "pd-ssm")


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        name: ours, from which the names of its runs begin.
        layer: registered name.
        published: name of the published row.
        options: of the layer, where the row is a variant.
    """

    name: str
    layer: str
    published: str
    options: Mapping[str, Any] = MappingProxyType({})


ROWS = (
    Row("flash-pd-ssm", "flash-pd-ssm", "Flash PD-SSM"),
    Row("pd-ssm", "pd-ssm", "PD-SSM"),
    Row("lstm", "lstm", "LSTM"),
    Row("complex-diagonal", "complex-diagonal", "C-diagonal"),
    Row("mamba", "mamba", "Mamba"),
    Row("transformer", "transformer", "Transformer"),
    Row("mamba3", "mamba3", "Mamba-3"),
    Row("slice-diagonal", "slice", "D-SLiCE", {"kind": "diagonal"}),
    Row("slice-block-diagonal", "slice", "BD-SLiCE", {"kind": "block-diagonal"}),
    Row("slice-diagonal-dense", "slice", "D-DE-SLiCE", {"kind": "diagonal-dense"}),
    Row("slice-dplr", "slice", "DPLR-SLiCE", {"kind": "dplr"}),
    Row("slice-walsh-hadamard", "slice", "WH-SLiCE", {"kind": "walsh-hadamard"}),
    Row("deltanet-positive", "deltanet", "DeltaNet", {"negative_eigenvalues": False}),
    Row("deltanet", "deltanet", "DeltaNet[-1,1]", {"negative_eigenvalues": True}),
    Row("gated-deltanet-positive", "gated-deltanet", "Gated DeltaNet", {"negative_eigenvalues": False}),
    Row("gated-deltaproduct", "gated-deltaproduct", "Gated DeltaProduct[-1,1]", {"negative_eigenvalues": True}),
    Row("rwkv7-positive", "rwkv7", "RWKV-7", {"negative_eigenvalues": False}),
)


def paper_config(layer: str, task: str, seed: int, variant: Mapping[str, Any] = MappingProxyType({})) -> TrainConfig:
    """The published settings: two post-norm blocks, width and state 128, 100,001 steps of batch 256, no curriculum."""
    options: dict[str, Any] = dict(variant)
    if layer in (*_MAIN, "complex-diagonal"):
        options |= {"d_state": 128, "magnitude_bias": None}
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
        make = paper_config if self.preset == "paper" else _cpu_config
        jobs = []
        for row in ROWS:
            for task in TASKS:
                for seed in range(self._n_seeds(row.layer, task)):
                    lengths = LENGTHS if row.layer in _MAIN else LENGTHS[: 4 if row.layer == "transformer" else 5]
                    config = make(row.layer, task, seed, row.options)
                    jobs.append(Job(config, out / run_name(row, task, seed), lengths, n=512, pooled=POOLED))
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
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        for row in ROWS:
            runs = [done[name] for task in TASKS for seed in range(5) if (name := run_name(row, task, seed)) in done]
            if runs:
                lines.append(_ours(row.name, runs))
        names = {row.published for row in ROWS}
        for name, cells in PUBLISHED.items():
            mark = " (published)" if name in names else ""
            mean = statistics.mean(cell[0] for cell in cells)
            lines.append(f"| {name}{mark} | " + " | ".join(f"{a:.1f} ± {s:.1f}" for a, s in cells) + f" | {mean:.1f} | |")
        return "\n".join(lines)


def run_name(row: Row, task: str, seed: int) -> str:
    """The name of a run's folder."""
    return f"{row.name}-{task}-{seed}"


def _cpu_config(layer: str, task: str, seed: int, options: Mapping[str, Any]) -> TrainConfig:
    return default_config(layer, task, seed=seed, layer_options=dict(options))


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
