"""Running products in small groups: train on at most 60 elements, with a curriculum that doubles, and see how far it goes.

Each number is the longest tested length up to which accuracy (over the labels at all positions) stays above 90 %. Source: "The
Expressive Limits of Diagonal SSMs for State-Tracking" (arXiv 2603.01959); its optimiser, grid and seeds are not published, ours
are in the result file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrack.automata import derived_series, group
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.groups_published import PUBLISHED
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, TrainConfig
from statetrack.training.sweep import Job

GROUPS = ("C2", "C6", "C24", "C60", "C2xC4", "S3", "A4", "A5")
LAYERS = (
    "mamba",
    "negative-mamba",
    "simple-aussm",
    "aussm",
    "rnn",
    "complex-kda",
    "gated-deltaproduct",
    "pd-ssm",
    "flash-pd-ssm",
)
LENGTHS = (60, *range(100, 1001, 100))
_CAP = 60
_DEEP = ("mamba", "negative-mamba", "simple-aussm", "aussm")
"""Layers that get two blocks where a group's commutators, or for C2xC4 its exponent, need them."""


def group_config(layer: str, name: str, seed: int) -> TrainConfig:
    """Settings of one run of the ``cpu`` preset."""
    config = default_config(layer, "group-word", seed=seed, task_options={"group": name})
    depth = config.model.n_layers
    if layer in _DEEP:
        depth = 2 if name == "C2xC4" or len(derived_series(group(name))) > 2 else 1
    selective = layer in ("pd-ssm", "flash-pd-ssm")
    width = config.model.d_model if selective else 32
    return replace(
        config,
        model=replace(config.model, d_model=width, n_layers=depth, feedforward=2 if layer in _DEEP else 0),
        lengths=LengthConfig(low=1, high=_CAP, start=2, growth=2.0, threshold=0.95),
        evaluation=EvalConfig(every=100, low=_CAP, high=_CAP + 40, n=128),
        steps=1500,
        batch_size=64 if selective else 32,
        restart_after=None,
    )


@register("groups")
class Groups(RunsRecipe):
    """The running-product table: eight groups, nine layers, one seed."""

    name = "groups"
    summary = "Running product in eight small groups, trained on at most 60 elements: the longest length above 90 %"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(group_config(layer, name, 0), out / f"{layer}-{name}-0", LENGTHS, n=64) for layer in LAYERS for name in GROUPS
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [1, _CAP],
            "labels": "every position",
            "alphabet": "all elements",
            "n_per_length": 64,
            "split": "test, used once after training",
            "published": "longest length above 90 % of the best run of a sweep; two layers for C2xC4, S3 and A4",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Longest length above 90 %; x where 100 falls short; published numbers in brackets."""
        reach = {
            (run["layer"], run["settings"]["task_options"]["group"]): run for run in result["runs"] if run["status"] == "done"
        }
        lines = ["| layer | " + " | ".join(GROUPS) + " |", "|---|" + "---|" * len(GROUPS)]
        for layer in LAYERS:
            cells = []
            for name in GROUPS:
                ours = _told(longest_good(reach[layer, name]["accuracy"])) if (layer, name) in reach else "not run"
                known = PUBLISHED.get(layer, {})
                cells.append(f"{ours} ({_told(known[name])})" if name in known else ours)
            lines.append(f"| {layer} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


def longest_good(accuracy: dict[str, float]) -> int | None:
    """The longest length of at least 100 up to which accuracy stays above 90 %, or None."""
    longest = None
    for length in sorted(map(int, accuracy)):
        if accuracy[str(length)] <= 0.9:
            break
        longest = length if length >= 100 else None
    return longest


def _told(length: int | None) -> str:
    return "x" if length is None else str(length)
