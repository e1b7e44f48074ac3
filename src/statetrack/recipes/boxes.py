"""Boxes at CPU scale: hybrids with attention trained on stories of at most six operations, tested on up to 26.

Published (Flash PD-SSM, arXiv 2605.19150; four layers inserted into pre-trained hybrids of 300M to 30B parameters, up to 26
operations): Flash PD-SSM beats Mamba-2 by 0.1 to 10 points and DeltaNet by 1.2 to 7.9. Ours begin from nothing in a world of
four boxes and ten objects, so only the order can be compared. An answer is right if every word of it is (exact match).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig
from statetrack.training.evaluate import row_accuracy
from statetrack.training.files import write_json, write_text
from statetrack.training.sweep import Job

WORLD = {"n_boxes": 4, "capacity": 2, "n_objects": 10}
LAYERS: dict[str, dict[str, Any]] = {
    "flash-pd-ssm": {"d_state": 16, "n_heads": 8, "dictionary_size": 16, "d_generator": "affine"},
    "mamba2": {"d_state": 32, "d_head": 16},
    "deltanet": {"n_heads": 4, "negative_eigenvalues": True},
}
LENGTHS = (2, 6, 12, 18, 26)
_LONGEST = 6
_N = 256
PUBLISHED = {"flash-pd-ssm": 90.68, "mamba2": 85.32, "deltanet": 84.12}
"""Accuracy (%) on up to 26 operations with four layers in Granite4 3B."""


def boxes_config(layer: str) -> TrainConfig:
    """One hybrid: two blocks of the layer, each followed by one of attention."""
    return TrainConfig(
        f"{layer}|transformer",
        "boxes",
        {**WORLD, "n_questions": 4},
        model=ModelConfig(
            d_model=64,
            n_layers=4,
            norm="pre",
            residual=True,
            feedforward=2,
            layer={f"{layer}.{name}": value for name, value in LAYERS[layer].items()},
        ),
        optim=OptimConfig(lr=3e-3, schedule="cosine", weight_decay=0.05, warmup=0.05),
        lengths=LengthConfig(low=1, high=_LONGEST, start=1, growth=2.0, threshold=0.9),
        evaluation=EvalConfig(every=250, low=1, high=_LONGEST, n=128, stop_at=1.1),
        steps=1500,
        batch_size=32,
    )


@register("boxes")
class BoxesRecipe(RunsRecipe):
    """Flash PD-SSM, Mamba-2 and DeltaNet, each with attention."""

    name = "boxes"
    summary = "What boxes hold, told in words: hybrids trained on up to 6 operations, tested on up to 26"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [Job(boxes_config(layer), out / layer, LENGTHS, n=_N) for layer in LAYERS]

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """As ``RunsRecipe.run``; each entry also has ``exact``, the share of stories whose whole answer is right, by length."""
        result = super().run(out, workers=workers, observer=observer, only=only)
        for entry in result["runs"]:
            if entry["status"] == "done":
                run = Run.open(out / entry["run"])
                model = run.load_model()
                entry["exact"] = {str(n): row_accuracy(model, run.task, n, _N, run.config.seed) for n in LENGTHS}
                entry["parameters"] = sum(parameter.numel() for parameter in model.parameters())
        write_json(out / f"{self.name}_{self.preset}.json", result)
        write_text(out / f"{self.name}_{self.preset}.md", self.table(result) + "\n")
        return result

    def protocol(self) -> dict[str, Any]:
        return {
            "train_operations": [1, _LONGEST],
            "world": WORLD,
            "asked": "a box that some operation changed",
            "n_per_length": _N,
            "split": "test, used once after training; signatures of initial states disjoint from those of training",
            "metric": "exact: all words of the answer right",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Exact match (%) by number of operations."""
        lines = [
            "| layer beside attention | parameters | " + " | ".join(f"{n} operations" for n in LENGTHS) + " | CPU min "
            "| published, up to 26 (Granite4 3B) |",
            "|---|---|" + "---|" * (len(LENGTHS) + 2),
        ]
        for run in result["runs"]:
            if run["status"] != "done" or "exact" not in run:
                continue
            shares = " | ".join(f"{100 * run['exact'][str(n)]:.1f}" for n in LENGTHS)
            lines.append(
                f"| {run['run']} | {run['parameters']:,} | {shares} | {run['cpu_minutes']:.1f} | {PUBLISHED[run['run']]} |"
            )
        return "\n".join(lines)
