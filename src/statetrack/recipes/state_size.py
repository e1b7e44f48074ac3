"""How many states does training need? Flash PD-SSM with one head of N states on automata with S states.

Theory: N = S is enough (arXiv 2605.19150), and with fewer the layer cannot hold all states apart. The automata are random: any
maps, of which every state is reachable and emits its own id, or permutations of the states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, TrainConfig
from statetrack.training.sweep import Job

STATES = (4, 8, 16, 32, 64)
KINDS = ("maps", "permutations")
FACTORS = (0.5, 1.0, 1.5, 2.0, 4.0)
"""N as a multiple of S; S - 1 is run too."""
LENGTHS = (40, 256)
N_TEST = 128
_WORKS = 0.99


def sizes(states: int) -> list[int]:
    """All N for automata with so many states.

    >>> sizes(4)
    [2, 3, 4, 6, 8, 16]
    """
    return sorted({states - 1, *(round(factor * states) for factor in FACTORS)})


def size_config(kind: str, states: int, d_state: int, seed: int) -> TrainConfig:
    """One run: one layer, one head, selections only, a label at every position, words of at most 40 symbols."""
    return TrainConfig(
        "flash-pd-ssm",
        "automaton",
        task_options={"n_states": states, "n_symbols": 4, "permutations": kind == "permutations"},
        model=ModelConfig(
            d_model=32 if states <= 16 else 64,
            n_layers=1,
            layer={
                "d_state": d_state,
                "n_heads": 1,
                "dictionary_size": 16,
                "dictionary_init": "permutation" if kind == "permutations" else "normal",
                "d_field": "real",
                "modulus": "unit",
                "additive_input": False,
            },
        ),
        optim=OptimConfig(lr=5e-3, decay_steps=200),
        lengths=LengthConfig(low=1, high=40, start=2, growth=1.5, threshold=0.95),
        evaluation=EvalConfig(every=100, low=40, high=80, n=128, stop_at=0.999),
        seed=seed,
        steps=2000,
        batch_size=64,
        restart_after=1000,
    )


@register("state-size")
class StateSize(RunsRecipe):
    """Accuracy against N for automata with 4 to 64 states, one seed."""

    name = "state-size"
    summary = "Accuracy against the number of states of Flash PD-SSM, on automata with 4 to 64 states"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(size_config(kind, states, d_state, 0), out / run_name(kind, states, d_state), LENGTHS, n=N_TEST)
            for kind in KINDS
            for states in STATES
            for d_state in sizes(states)
        ]

    def protocol(self) -> dict[str, Any]:
        return {
            "train_lengths": [1, 40],
            "labels": "every position",
            "n_symbols": 4,
            "n_heads": 1,
            "n_per_length": N_TEST,
            "split": "test, used once after training",
            "works": f"at least {100 * _WORKS:g} % at length {LENGTHS[-1]}",
        }

    def table(self, result: dict[str, Any]) -> str:
        """For each automaton, test accuracy (%) at the greatest length by N, and the smallest N that works."""
        lines = ["| automaton | states | accuracy by N | smallest N that works | theory |", "|---|---|---|---|---|"]
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        for kind in KINDS:
            for states in STATES:
                found = {
                    d_state: done[name]["accuracy"][str(LENGTHS[-1])]
                    for d_state in sizes(states)
                    if (name := run_name(kind, states, d_state)) in done
                }
                if found:
                    cells = ", ".join(f"{d_state}: {100 * share:.1f}" for d_state, share in found.items())
                    least = smallest_working(found)
                    lines.append(f"| {kind} | {states} | {cells} | {'none' if least is None else least} | {states} |")
        return "\n".join(lines)


def run_name(kind: str, states: int, d_state: int) -> str:
    """The name of a run's folder."""
    return f"{kind}-{states}-states-N{d_state}-0"


def smallest_working(found: dict[int, float]) -> int | None:
    """The smallest N whose accuracy counts as working, or None."""
    return min((d_state for d_state, share in found.items() if share >= _WORKS), default=None)
