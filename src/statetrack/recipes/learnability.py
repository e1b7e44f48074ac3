"""What a diagonal layer can express and training does not find: running products in small solvable groups, from random starts.

Two layers whose transitions are diagonal, complex and input-dependent suffice for every group here with derived length 2, three
for S4. Published: two layers of AUSSM never learn S3 or A4 from a random start ("The Expressive Limits of Diagonal SSMs for
State-Tracking", arXiv 2603.01959). Beside AUSSM stands a complex diagonal layer of modulus 1 without additive input whose phases
are free, or picked among the multiples of 2 pi / Q: then the stack is a finite machine, which does not drift. Picked from the
start, or mixed at first and picked at the pace that training accuracy allows, layer after layer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrack.automata import derived_series, group
from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.groups import longest_good
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import AnnealConfig, EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

GROUPS = ("S3", "A4", "D4", "Q8", "S4")
SEEDS = 5
LENGTHS = (60, 100, 300, 1000, 10_000)
_CAP = 60
_RIGHT = 0.999

_FINITE: dict[str, Any] = {"d_state": 1, "n_heads": 32, "modulus": "unit", "additive_input": False, "initial_state": "first"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "aussm": ("aussm", {}),
    "free-phases": ("complex-diagonal", _FINITE),
    "picked-phases": ("complex-diagonal", {**_FINITE, "phase_levels": 12}),
    "annealed-phases": ("complex-diagonal", {**_FINITE, "phase_levels": 6, "modulus": "annealed"}),
}
"""Name of a variant to its layer and the options of that."""


def learnability_config(variant: str, name: str, seed: int) -> TrainConfig:
    """Settings of one run of the ``cpu`` preset: as many layers as the group's derived series has steps."""
    layer, options = VARIANTS[variant]
    depth = len(derived_series(group(name))) - 1
    width = 32 if layer == "aussm" else 64
    config = TrainConfig(
        layer,
        "group-word",
        {"group": name},
        model=ModelConfig(d_model=width, n_layers=depth, norm="none", residual=True, feedforward=2, layer=dict(options)),
        optim=OptimConfig(lr=1e-3, warmup=0.0125, decay_steps=400),
        lengths=LengthConfig(low=1, high=_CAP, start=2, growth=1.5, threshold=0.9, retreat=0.7, mixed=False),
        evaluation=EvalConfig(every=100, low=_CAP, high=300, n=64, stop_at=_RIGHT),
        seed=seed,
        steps=4000,
        batch_size=128,
    )
    return _at_its_pace(config) if variant == "annealed-phases" else config


def _at_its_pace(config: TrainConfig) -> TrainConfig:
    """Without retreat to shorter words: what is learnt is kept by the pace of annealing, which needs long words to judge."""
    depth = config.model.n_layers
    return replace(
        config,
        optim=replace(config.optim, beta2=0.99, warmup=0.005),
        lengths=replace(config.lengths, threshold=0.95, retreat=0.0, mixed=True),
        anneal=AnnealConfig(steps=1200 * depth, order="bottom-up"),
        steps=4000 * depth,
    )


@register("learnability")
class Learnability(RunsRecipe):
    """Expressible is not learnt: four variants of diagonal layers, five groups, five seeds for those with picked phases."""

    name = "learnability"
    summary = "Diagonal stacks on S3, A4, D4, Q8 and S4 from random starts: AUSSM, free, picked and annealed phases"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(learnability_config(variant, name, seed), out / f"{variant}-{name}-{seed}", LENGTHS, n=32)
            for seed in range(SEEDS)
            for variant in VARIANTS
            for name in GROUPS
            if seed == 0 or variant in ("picked-phases", "annealed-phases")
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [1, _CAP],
            "labels": "every position",
            "alphabet": "all elements",
            "n_per_length": 32,
            "split": "test, used once after training",
            "right": f"at least {100 * _RIGHT:g} % of the labels at length 1,000",
            "published": "two-layer AUSSM from random starts: fails at length 100 on S3 and A4",
        }

    def table(self, result: dict[str, Any]) -> str:
        """For each variant and group: runs that are right at 1,000 out of all, and the best accuracy at 100, 1,000 and 10,000."""
        lines = [
            "| variant | group | layers | right at 1,000 | longest above 90 % | best at 100 | 1,000 | 10,000 | CPU min per run |",
            "|---|---|" + "---|" * 7,
        ]
        done = [run for run in result["runs"] if run["status"] == "done"]
        for variant in VARIANTS:
            for name in GROUPS:
                runs = [run for run in done if run["run"].startswith(f"{variant}-{name}-")]
                if runs:
                    lines.append(_row(variant, name, runs))
        return "\n".join(lines)


def _row(variant: str, name: str, runs: list[dict[str, Any]]) -> str:
    right = sum(run["accuracy"]["1000"] >= _RIGHT for run in runs)
    best = max(runs, key=lambda run: (run["accuracy"]["1000"], run["accuracy"]["100"]))
    reach = longest_good(best["accuracy"])
    shares = [f"{100 * best['accuracy'][str(length)]:.2f}" for length in (100, 1000, 10_000)]
    minutes = sum(run["cpu_minutes"] for run in runs) / len(runs)
    cells = [
        variant,
        name,
        str(best["settings"]["model"]["n_layers"]),
        f"{right} of {len(runs)}",
        "none" if reach is None else f"{reach:,}",
    ]
    return "| " + " | ".join([*cells, *shares, f"{minutes:.1f}"]) + " |"
