"""Recency, over-smoothing and recall: how far seven layers see through a stack and how alike they make its tokens, at 2 to 16
blocks; and MQAR for Mamba with one state pinned at 1, one at 0, both or none.

The recall is a small form of the published study, which has 8192 ids, training lengths of 64 to 1024 and a test length of 1024
with 64, 128 and 256 pairs. Source: Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and
Over-smoothing (arXiv 2501.00658).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.depth_numbers import depth_numbers, random_words
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig
from statetrack.training.files import read_json, write_json
from statetrack.training.run import build_model
from statetrack.training.sweep import Job


class Variant(NamedTuple):
    """A layer with options.

    Attributes:
        name: of the variant.
        layer: registered name.
        options: of the layer.
    """

    name: str
    layer: str
    options: Mapping[str, Any] = MappingProxyType({})


_SIZE = {"d_state": 8}
PINNED = (
    Variant("none", "mamba", _SIZE),
    Variant("one", "polarized-mamba", {**_SIZE, "n_ones": 1, "n_zeros": 0}),
    Variant("zero", "polarized-mamba", {**_SIZE, "n_ones": 0, "n_zeros": 1}),
    Variant("one-and-zero", "polarized-mamba", {**_SIZE, "n_ones": 1, "n_zeros": 1}),
)
OTHERS = tuple(Variant(name, name) for name in ("lru", "aussm", "deltanet", "pd-ssm", "flash-pd-ssm"))
UNTRAINED = (Variant("mamba", "mamba", _SIZE), Variant("polarized-mamba", "polarized-mamba", _SIZE), *OTHERS)
DEPTHS = (2, 4, 8, 16)
PAIRS = (4, 7)
VOCABULARY, WIDTH = 16, 32
LENGTH = 32
N_TEST = 512
SEEN = 64
"""Tokens of the words on which recency and smoothing are measured."""
WORDS = 4
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


def recall_config(variant: Variant, depth: int, n_pairs: int, seed: int) -> TrainConfig:
    """One run: 32 tokens over 16 ids, at most 800 steps of 32 sequences, fewer where validation is perfect before."""
    return TrainConfig(
        variant.layer,
        "mqar",
        task_options={"vocab_size": VOCABULARY, "n_pairs": n_pairs},
        model=ModelConfig(d_model=WIDTH, n_layers=depth, norm="pre", residual=True, layer=dict(variant.options)),
        optim=OptimConfig(lr=5e-3, weight_decay=0.1, schedule="cosine", warmup=0.05),
        lengths=LengthConfig(low=LENGTH, high=LENGTH, start=None, threshold=0.0),
        evaluation=EvalConfig(every=100, low=LENGTH, high=LENGTH, n=256, stop_at=0.999),
        seed=seed,
        steps=800,
        batch_size=32,
    )


@register("bottlenecks")
class Bottlenecks(RunsRecipe):
    """Recency and smoothing by depth, before training and after; MQAR by pinned states, depth and number of pairs, one seed."""

    name = "bottlenecks"
    summary = "Recency and smoothing of seven layers at 2 to 16 blocks; MQAR for Mamba with and without polarization"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(recall_config(variant, depth, n_pairs, 0), out / run_name(variant, depth, n_pairs), (LENGTH,), n=N_TEST)
            for depth in DEPTHS
            for n_pairs in reversed(PAIRS)
            for variant in (*PINNED, *OTHERS)
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "length": LENGTH,
            "pairs": list(PAIRS),
            "n_test": N_TEST,
            "split": "test, used once after training",
            "published": f"1024 tokens, {PUBLISHED_PAIRS} pairs, 8192 ids, width 128, 16 learned states, training on mixed sizes",
            "recency_and_smoothing": f"{WORDS} words of {SEEN} uniform tokens, width {WIDTH}, pre-norm, residual paths",
        }

    def measure(self, run: Run) -> dict[str, Any]:
        """Recency and smoothing of the trained model."""
        return depth_numbers(run.load_model(), random_words(VOCABULARY, WORDS, SEEN))

    def shared(self, out: Path) -> dict[str, Any]:
        """Recency and smoothing of seven untrained layers by depth, kept in ``untrained.json``."""
        path = out / "untrained.json"
        found: list[dict[str, Any]] = read_json(path) if path.exists() else []
        known = {(row["variant"], row["depth"]) for row in found}
        for depth in DEPTHS:
            for variant in UNTRAINED:
                if (variant.name, depth) not in known:
                    found.append({"variant": variant.name, "depth": depth, **self._untrained(variant, depth)})
                    write_json(path, found)
        return {"untrained": found}

    def _untrained(self, variant: Variant, depth: int) -> dict[str, Any]:
        config = recall_config(variant, depth, PAIRS[0], 0)
        run = Run(Path(), config)
        return depth_numbers(build_model(config, run.task).eval(), random_words(VOCABULARY, WORDS, SEEN))

    def table(self, result: dict[str, Any]) -> str:
        """Recall beside the published numbers, then recency and smoothing by depth."""
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        return "\n".join([*_recall(done), "", *_depths(result.get("untrained", []), done)])


def run_name(variant: Variant, depth: int, n_pairs: int) -> str:
    """The name of a run's folder."""
    return f"{variant.name}-{depth}-layers-{n_pairs}-pairs-0"


def _recall(done: dict[str, dict[str, Any]]) -> list[str]:
    """Test accuracy (%) by number of pairs; the published numbers, at their own sizes, to the right."""
    ours = [f"{n} pairs" for n in PAIRS]
    theirs = [f"{n} pairs (published)" for n in PUBLISHED_PAIRS]
    heads = ["layer, pinned states", "blocks", *ours, "mean", *theirs, "mean (published)"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for depth in DEPTHS:
        for variant in (*PINNED, *OTHERS):
            runs = [done.get(run_name(variant, depth, n_pairs)) for n_pairs in PAIRS]
            published = PUBLISHED.get((variant.name, depth))
            if published is None and not any(runs):
                continue
            shares = [None if run is None else 100 * run["accuracy"][str(LENGTH)] for run in runs]
            known = [share for share in shares if share is not None]
            cells = ["not run" if share is None else f"{share:.1f}" for share in shares]
            mean = f"{statistics.mean(known):.1f}" if len(known) == len(PAIRS) else ""
            numbers = [f"{share:.1f}" for share in published] if published else [""] * 4
            title = f"mamba, {variant.name}" if variant in PINNED else variant.name
            lines.append(f"| {title} | {depth} | " + " | ".join([*cells, mean, *numbers]) + " |")
    return lines


def _depths(untrained: list[dict[str, Any]], done: dict[str, dict[str, Any]]) -> list[str]:
    """Half-life in tokens, share of far influence (%), relative sharpness and effective rank, untrained and trained."""
    heads = ["layer", "blocks", "trained on", "half-life", "far share (%)", "sharpness of last states", "of last block", "rank"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    order = [variant.name for variant in UNTRAINED]
    rows = sorted(untrained, key=lambda row: (order.index(row["variant"]), row["depth"]))
    lines += [_depth_row(row["variant"], row["depth"], "nothing", row) for row in rows]
    for depth in DEPTHS:
        for n_pairs in PAIRS:
            for variant in (*PINNED, *OTHERS):
                run = done.get(run_name(variant, depth, n_pairs))
                if run is not None:
                    title = f"mamba, {variant.name}" if variant in PINNED else variant.name
                    lines.append(_depth_row(title, depth, f"{n_pairs} pairs", run["measured"]))
    return lines


def _depth_row(title: str, depth: int, trained: str, row: dict[str, Any]) -> str:
    half_life = "does not fall" if row["half_life"] is None else f"{row['half_life']:.1f}"
    sharp = [row["states"][-1], row["relative"][-1], row["effective_rank"][-1]]
    cells = [title, str(depth), trained, half_life, f"{100 * row['far_share']:.2f}"]
    return "| " + " | ".join(cells + ["none" if value is None else f"{value:.2f}" for value in sharp]) + " |"
