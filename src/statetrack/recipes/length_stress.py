"""Memory over great lengths: selective copying and flip-flop, trained on at most 512 tokens, tested on 4k, 16k and 64k.

Both ask for what was read long ago through any amount of noise; nothing in them grows with the length.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.runs import RunsRecipe
from statetrack.tasks import make_task
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

LAYERS = ("mamba", "polarized-mamba", "flash-pd-ssm")
TASKS: dict[str, dict[str, Any]] = {
    "selective-copying": {"vocab_size": 8, "n_tokens": 4},
    "flip-flop": {"ignore": 0.8},
}
LONGEST = 512
LENGTHS = (LONGEST, 4096, 16_384, 65_536)
N_TEST = 16
_PD: dict[str, dict[str, Any]] = {
    "selective-copying": {
        "d_state": 16,
        "n_heads": 16,
        "dictionary_size": 32,
        "dictionary_scale": 0.5,
        "d_field": "real",
        "modulus": "unit",
        "additive_input": False,
    },
    "flip-flop": {"dictionary_scale": 0.5},
}
"""Options of Flash PD-SSM beside its defaults for the task. Selections follow the automaton of the flip-flop, which is small and
merges states: a start that clings to permutations does not find it."""


def stress_config(layer: str, task: str, seed: int) -> TrainConfig:
    """One run, with a curriculum of lengths up to 512."""
    low = make_task(task, **TASKS[task]).min_length
    small = layer == "flash-pd-ssm" and task == "flip-flop"
    options = _PD[task] if layer == "flash-pd-ssm" else {"d_state": 8}
    config = default_config(layer, task, seed=seed, task_options=dict(TASKS[task]), layer_options=options)
    if not small:
        pd = layer == "flash-pd-ssm"
        width, depth = (32, 1) if pd else (16, 2)
        model = ModelConfig(d_model=width, n_layers=depth, norm="pre", residual=True, feedforward=2, layer=options)
        config = replace(config, model=model, optim=OptimConfig(lr=2e-3 if pd else 5e-3, decay_steps=150))
    return replace(
        config,
        lengths=LengthConfig(low=low, high=LONGEST, start=2 * low, growth=2.0, threshold=0.9),
        evaluation=EvalConfig(every=100, low=LONGEST, high=LONGEST, n=64, stop_at=0.999),
        steps=3000 if small else 1200 if task == "flip-flop" else 6000,
        batch_size=64 if layer == "flash-pd-ssm" else 32,
        restart_after=800 if small else None,
    )


@register("length-stress")
class LengthStress(RunsRecipe):
    """Two tasks, three layers, one seed."""

    name = "length-stress"
    summary = "Selective copying and flip-flop at 4k to 64k tokens after training on at most 512"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(stress_config(layer, task, 0), out / f"{layer}-{task}-0", LENGTHS, n=N_TEST) for task in TASKS for layer in LAYERS
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [min(stress_config(LAYERS[0], task, 0).lengths.low for task in TASKS), LONGEST],
            "tasks": TASKS,
            "n_per_length": N_TEST,
            "split": "test, used once after training",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%) by length."""
        lines = [
            "| task | layer | " + " | ".join(f"{length:,}" for length in LENGTHS) + " | steps | CPU min |",
            "|---|---|" + "---|" * (len(LENGTHS) + 2),
        ]
        for run in result["runs"]:
            if run["status"] == "done":
                cells = " | ".join(f"{100 * run['accuracy'][str(length)]:.1f}" for length in LENGTHS)
                lines.append(f"| {run['task']} | {run['layer']} | {cells} | {run['steps']} | {run['cpu_minutes']:.1f} |")
        return "\n".join(lines)
