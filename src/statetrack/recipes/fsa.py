"""Length generalisation on four formal languages: trained on words of 3 to 40 tokens with the label at the last one, tested
on 40 to 256.

The published rows report the best validation accuracy of a run; ours are measured once, after training, on a test split that no
choice was made on. Source: PD-SSM (arXiv 2509.22284, Table 2), protocol of SLiCE (arXiv 2505.17761).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig
from statetrack.recipes.base import Recipe, register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.fsa_published import PUBLISHED, PUBLISHED_NAMES, TASKS
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig
from statetrack.training.files import write_json
from statetrack.training.sweep import Job, Outcome, run_jobs

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
class FSA(Recipe):
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

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Do the runs that are not done yet, and write ``fsa_<preset>.json`` and its table under ``out``.

        Args:
            out: folder of the runs and the results.
            workers: number of processes, one thread each.
            observer: gets a line when a run ends.
            only: patterns of ``layer-task-seed``; the other runs are left for later.

        Returns:
            ``{"recipe", "preset", "protocol", "runs": [one entry per run]}``; runs that are not done yet are not in it.
        """
        jobs = [job for job in self.jobs(out) if any(fnmatch(job.out.name, pattern) for pattern in only)]
        if not jobs:
            raise InvalidInputError(
                f"No run of {self.name} matches {', '.join(only)}; they are called like {self.jobs(out)[0].out.name}."
            )
        outcomes = run_jobs(jobs, workers=workers, done=lambda outcome: observer(_line(outcome)))
        result = {
            "recipe": self.name,
            "preset": self.preset,
            "protocol": {
                "train_lengths": [3, 40],
                "pooled_lengths": list(POOLED),
                "n_pooled": 8192,
                "n_per_length": 512,
                "split": "test, used once after training",
                "published": "best validation accuracy on the reported set, mean and standard deviation of five runs",
            },
            "runs": [_entry(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)],
        }
        write_json(out / f"fsa_{self.preset}.json", result)
        (out / f"fsa_{self.preset}.md").write_text(self.table(result) + "\n", encoding="utf8")
        return result

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


def _line(outcome: Outcome) -> str:
    what = outcome.error or f"{100 * (outcome.pooled or 0):.2f} % at 40-256, {outcome.cpu_seconds / 60:.1f} CPU-minutes"
    return f"{Path(outcome.run).name}: {outcome.status}, {what}"


def _entry(job: Job, outcome: Outcome) -> dict[str, Any]:
    entry = {
        "layer": outcome.layer,
        "task": outcome.task,
        "seed": outcome.seed,
        "status": outcome.status,
        "error": outcome.error,
        "accuracy": outcome.accuracy,
        "pooled": outcome.pooled,
        "validation": outcome.validation,
        "steps": outcome.step,
        "cpu_minutes": round(outcome.cpu_seconds / 60, 2),
        "settings": job.config.to_dict(),
    }
    if outcome.status == "done":
        run = Run.open(job.out)
        entry["attempts"] = run.progress().attempt + 1
        entry["revision"] = run.revision
    return entry


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
