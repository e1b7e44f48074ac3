"""Recall with and without polarization: MQAR for Mamba with one state pinned at 1, one at 0, both or none, at several depths.

A small form of the published study, which has 8192 ids, training lengths of 64 to 1024 and a test length of 1024 with 64, 128 and
256 pairs. Source: Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and Over-smoothing
(arXiv 2501.00658).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job


class Pinned(NamedTuple):
    """Which states are pinned.

    Attributes:
        name: of the variant.
        ones: states per channel whose eigenvalue is 1.
        zeros: states per channel whose eigenvalue is 0.
    """

    name: str
    ones: int
    zeros: int


PINNED = (Pinned("none", 0, 0), Pinned("one", 1, 0), Pinned("zero", 0, 1), Pinned("one-and-zero", 1, 1))
DEPTHS = (2, 4)
PAIRS = (4, 8, 16)
LENGTH = 64
N_TEST = 512
PUBLISHED_PAIRS = (64, 128, 256)
PUBLISHED: dict[tuple[str, int], tuple[float, float, float, float]] = {
    ("none", 2): (98.38, 81.81, 36.00, 72.06),
    ("none", 4): (99.23, 82.08, 33.52, 71.61),
    ("one", 2): (99.81, 94.70, 56.39, 83.63),
    ("zero", 2): (98.41, 81.35, 36.55, 72.10),
    ("zero", 4): (99.74, 92.20, 52.21, 81.38),
    ("one-and-zero", 2): (99.23, 95.54, 54.74, 83.17),
    ("one-and-zero", 4): (99.94, 98.80, 81.56, 93.43),
}
"""Accuracy (%) at 1024 tokens by pinned states and depth: with 64, 128 and 256 pairs, and their mean."""


def recall_config(pinned: Pinned, depth: int, n_pairs: int, seed: int) -> TrainConfig:
    """One run: width 64, 64 tokens over 64 ids, at most 2000 steps of 32 sequences, fewer where validation is perfect before."""
    plain = not pinned.ones and not pinned.zeros
    pins = {} if plain else {"n_ones": pinned.ones, "n_zeros": pinned.zeros}
    return TrainConfig(
        "mamba" if plain else "polarized-mamba",
        "mqar",
        task_options={"vocab_size": 64, "n_pairs": n_pairs},
        model=ModelConfig(d_model=64, n_layers=depth, norm="pre", residual=True, layer={"d_state": 16, **pins}),
        optim=OptimConfig(lr=2e-3, weight_decay=0.1, schedule="cosine", warmup=0.05),
        lengths=LengthConfig(low=LENGTH, high=LENGTH, start=None, threshold=0.0),
        evaluation=EvalConfig(every=100, low=LENGTH, high=LENGTH, n=256, stop_at=0.999),
        seed=seed,
        steps=2000,
        batch_size=32,
    )


@register("bottlenecks")
class Bottlenecks(RunsRecipe):
    """MQAR by pinned states, depth and number of pairs, one seed."""

    name = "bottlenecks"
    summary = "MQAR for Mamba with and without polarization, 2 and 4 layers"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(recall_config(pinned, depth, n_pairs, 0), out / run_name(pinned, depth, n_pairs), (LENGTH,), n=N_TEST)
            for depth in DEPTHS
            for n_pairs in PAIRS
            for pinned in PINNED
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "length": LENGTH,
            "pairs": list(PAIRS),
            "n_test": N_TEST,
            "split": "test, used once after training",
            "published": f"1024 tokens, {PUBLISHED_PAIRS} pairs, 8192 ids, width 128, 16 learned states, training on mixed sizes",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%) by number of pairs; the published numbers, at their own sizes, to the right."""
        ours = [f"{n} pairs" for n in PAIRS]
        theirs = [f"{n} pairs (published)" for n in PUBLISHED_PAIRS]
        heads = ["pinned", "layers", *ours, "mean", *theirs, "mean (published)"]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        for depth in DEPTHS:
            for pinned in PINNED:
                runs = [done.get(run_name(pinned, depth, n_pairs)) for n_pairs in PAIRS]
                shares = [None if run is None else 100 * run["accuracy"][str(LENGTH)] for run in runs]
                known = [share for share in shares if share is not None]
                cells = ["not run" if share is None else f"{share:.1f}" for share in shares]
                mean = f"{statistics.mean(known):.1f}" if len(known) == len(PAIRS) else ""
                published = PUBLISHED.get((pinned.name, depth))
                numbers = [f"{share:.1f}" for share in published] if published else [""] * 4
                lines.append(f"| {pinned.name} | {depth} | " + " | ".join([*cells, mean, *numbers]) + " |")
        return "\n".join(lines)


def run_name(pinned: Pinned, depth: int, n_pairs: int) -> str:
    """The name of a run's folder."""
    return f"{pinned.name}-{depth}-layers-{n_pairs}-pairs-0"
