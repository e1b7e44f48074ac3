"""Does training find what theory allows? Every layer on parity: trained on words of 3 to 128 bits, tested far beyond.

Layers for which some stack is proved to track parity (``traits.parity``) should be right at every length, those for which none
can should fall to guessing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrack.layers import layers
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

LENGTHS = (40, 256, 1000)
TUNED = ("flash-pd-ssm", "pd-ssm", "lstm", "rnn")
TOLD_ALWAYS = ("complex-kda", "deltanet", "gated-deltanet", "kda", "slice", "aussm", "mamba3")
"""Layers told the parity of every prefix, of words up to the border: from one label at the end of words half as
long they learn what has drifted, or begun to fade, by then, or nothing."""
_MIXED = ("aussm", "mamba3")
"""Of those, the ones that need a feed-forward to read what their one layer holds."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "complex-diagonal": {
        "d_state": 1,
        "n_heads": 32,
        "modulus": "unit",
        "additive_input": False,
        "initial_state": "first",
        "phase_levels": 12,
    },
    "simple-aussm": {"phase_levels": 2, "additive_input": False, "d_state": 16},
    "mamba3": {"rotation": "all", "d_state": 16, "d_head": 16},
}
"""Options beside the defaults of a layer: phases that are picked do not drift."""
_LONG = ("path-attention",)
"""Layers that see words up to the border, with one label."""
_RATES = {"sd-ssm": 1e-3, "slice": 5e-4, "simple-aussm": 2e-3, "aussm": 2e-3, "mamba3": 2e-3}
_STEPS = {"mamba3": 4000, "path-attention": 3000}
_LONGEST = 128
_RIGHT = 0.999
_BORDER = 256
"""The length at which experiment and theory are compared."""


def parity_config(layer: str) -> TrainConfig:
    """One layer and no normalisation, so that what is right is right by the recurrence alone.

    Words are long and weight decay is strong because both drive eigenvalues towards modulus 1: from words of at most 40 bits most
    layers learn something that has faded or turned away at 256. Layers with tuned defaults keep those.
    """
    config = default_config(layer, "parity")
    if layer in TUNED:
        return config
    model = replace(config.model, d_model=32, n_layers=1, norm="none", residual=False)
    config = replace(
        config,
        model=replace(model, layer={**model.layer, **_OPTIONS.get(layer, {})}),
        optim=OptimConfig(lr=_RATES.get(layer, 5e-3), weight_decay=0.3, warmup=0.02, decay_steps=300),
        lengths=LengthConfig(high=_BORDER if layer in _LONG else _LONGEST, start=4, growth=2.0),
        evaluation=EvalConfig(every=100, stop_at=0.999),
        batch_size=32,
        steps=_STEPS.get(layer, 2500),
    )
    return _told_always(config) if layer in TOLD_ALWAYS else config


def _told_always(config: TrainConfig) -> TrainConfig:
    """The same function as a running product in C2, with a label at every position."""
    mixed = config.layer in _MIXED
    return replace(
        config,
        task="group-word",
        task_options={"group": "C2"},
        model=replace(config.model, residual=mixed, feedforward=2 if mixed else 0),
        optim=replace(config.optim, weight_decay=0.01 if mixed else 0.3),
        lengths=replace(config.lengths, low=1, high=_BORDER, start=2),
        evaluation=replace(config.evaluation, stop_at=1.0),
    )


@register("parity")
class Parity(RunsRecipe):
    """Parity with every registered layer, one seed."""

    name = "parity"
    summary = "Parity with every layer: do the layers that can track it, and only they, learn it?"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [Job(parity_config(layer), out / f"{layer}-0", self._lengths(layer), n=512) for layer in layers]

    def _lengths(self, layer: str) -> tuple[int, ...]:
        return LENGTHS if layers.get(layer).traits.streams else LENGTHS[:2]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [3, _LONGEST],
            "labels": "last position",
            "longer_words": list(_LONG),
            "told_always": list(TOLD_ALWAYS),
            "train_lengths_told_always": [1, _BORDER],
            "n_per_length": 512,
            "split": "test, used once after training",
            "right": f"at least {100 * _RIGHT:g} % at length {_BORDER}",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%) by length, beside what theory says."""
        lines = [
            "| layer | theory | " + " | ".join(f"{length:,}" for length in LENGTHS) + " | agree | steps | CPU min |",
            "|---|---|" + "---|" * (len(LENGTHS) + 3),
        ]
        for run in result["runs"]:
            if run["status"] != "done":
                continue
            can = layers.get(run["layer"]).traits.parity
            shares = [run["accuracy"].get(str(length)) for length in LENGTHS]
            told = {True: "can", False: "cannot", None: "open"}[can]
            cells = ["" if share is None else f"{100 * share:.1f}" for share in shares]
            agree = "" if can is None else "yes" if can == is_right(run) else "**no**"
            lines.append(
                f"| {run['layer']} | {told} | " + " | ".join(cells) + f" | {agree} | {run['steps']} | {run['cpu_minutes']:.1f} |"
            )
        return "\n".join(lines)


def is_right(run: dict[str, Any]) -> bool:
    """Whether a run solves parity far beyond its training lengths."""
    return run["accuracy"][str(_BORDER)] >= _RIGHT
