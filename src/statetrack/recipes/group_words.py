"""Word problems of two groups that are not solvable: n letters of A5 or S5, the label at the last token, trained on words of up
to 40 letters and tested on 40 to 256.

The published numbers are the best validation accuracies over learning rates, three runs and all checkpoints of 100,000 steps.
Ours are measured once, after training, on a test split that no choice was made on. Source: PD-SSM (arXiv 2509.22284); which
letters it adds to the generators is not published, ours are drawn from a seed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.runs import RunsRecipe
from statetrack.tasks import make_task
from statetrack.training import EvalConfig, LengthConfig, TrainConfig
from statetrack.training.sweep import Job

WORDS = (
    ("A5", "random-2"),
    ("A5", "random-6"),
    ("A5", "random-8"),
    ("A5", "random-12"),
    ("S5", "random-4"),
    ("S5", "random-8"),
    ("S5", "random-32"),
    ("S5", "swaps"),
)
LAYERS = ("pd-ssm", "flash-pd-ssm")
_MANY = 16
LENGTHS = (40, 64, 128, 256, 1000, 10_000)
POOLED = (40, 256)

PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "Complex diagonal, 2 layers": (15.5, None, None, None, None, None, None, None),
    "Gated DeltaProduct[-1,1], 1 layer": (97.9, 92.5, 91.8, 60.5, 88.7, 57.4, 1.23, None),
    "Gated DeltaProduct[-1,1], 2 layers": (None, None, None, 68.4, 84.7, 62.2, None, None),
    "PD-SSM, 1 layer": (100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 1.07, None),
}
"""Accuracy (%) in the order of ``WORDS``; None where nothing is published."""


def word_config(layer: str, group: str, alphabet: str, seed: int) -> TrainConfig:
    """Settings of one run of the ``cpu`` preset: one layer, whose heads have a place for each element of the group.

    The dictionary has three entries for each letter. With barely one, training on S5 comes to rest where some letters lead a few
    states astray. Many letters mean many transitions, each of which a batch shows rarely: they get larger batches, and a rate
    that begins high, as the first selections need, and falls all the time, without which longer words undo them again.
    """
    task_options = {"group": group, "alphabet": alphabet, "label": "last"}
    letters = make_task("group-word", **task_options).vocab_size - 1
    config = default_config(
        layer,
        "group-word",
        seed=seed,
        task_options=task_options,
        layer_options={"d_state": 128, "dictionary_size": max(12, 3 * letters)},
    )
    lengths = LengthConfig(low=1, high=40, start=3, threshold=0.9, retreat=0.5)
    config = replace(config, lengths=lengths, evaluation=EvalConfig(every=100), steps=6000, restart_after=None)
    if letters > _MANY:
        falling = replace(config.optim, lr=5e-3, min_lr=1e-4, schedule="cosine", warmup=1 / 30)
        config = replace(config, batch_size=512, steps=3000, optim=falling, lengths=replace(lengths, start=2))
    return config


@register("group-words")
class GroupWords(RunsRecipe):
    """PD-SSM and Flash PD-SSM on words over A5 and S5, one seed."""

    name = "group-words"
    summary = "Words over A5 and S5, 2 to 32 letters, label at the last token: train up to 40, test 40-256"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(word_config(layer, group, alphabet, 0), out / f"{layer}-{group}-{alphabet}-0", LENGTHS, n=256, pooled=POOLED)
            for layer in LAYERS
            for group, alphabet in WORDS
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [1, 40],
            "labels": "last position",
            "pooled_lengths": list(POOLED),
            "n_pooled": 8192,
            "n_per_length": 256,
            "split": "test, used once after training",
            "published": "best validation accuracy over learning rates, three runs and checkpoints",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Pooled test accuracy (%), and in brackets accuracy at length 10,000."""
        heads = [f"{group}, {alphabet.removeprefix('random-')}" for group, alphabet in WORDS]
        lines = ["| layer | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        for layer in LAYERS:
            cells = []
            for group, alphabet in WORDS:
                run = done.get(f"{layer}-{group}-{alphabet}-0")
                cells.append(
                    f"{100 * run['pooled']:.1f} ({100 * run['accuracy'][str(LENGTHS[-1])]:.1f})" if run is not None else "not run"
                )
            lines.append(f"| **{layer}**, 1 layer | " + " | ".join(cells) + " |")
        for name, shares in PUBLISHED.items():
            lines.append(f"| {name} (published) | " + " | ".join("" if s is None else f"{s:g}" for s in shares) + " |")
        return "\n".join(lines)
