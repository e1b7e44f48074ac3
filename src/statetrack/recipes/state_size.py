"""How many states does training need, and how many does it use? Flash PD-SSM with one head of N states on automata of S states.

Theory: N = S is enough (arXiv 2605.19150), and one-hot states tell no more than N apart; some automata need N of at least S - 1
in one layer whatever its form (arXiv 2509.22284). The automata are random: any maps, of which every state is reachable and emits
its own id, or permutations of the states. What a run uses is the rank of the states it visits; what it needs is found by reading
the automaton off its selections and minimising it, and the smaller layer that runs it is built and tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from statetrack.analysis.extraction.white_box import WhiteBox, read_off
from statetrack.analysis.language import difference, grammar_of, specification
from statetrack.analysis.layer_inputs import layer_inputs
from statetrack.analysis.state_use import state_use
from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig
from statetrack.recipes.base import register
from statetrack.recipes.runs import RunsRecipe
from statetrack.tasks import stream
from statetrack.theory.construct import construct
from statetrack.training import EvalConfig, LengthConfig, OptimConfig, Run, TrainConfig
from statetrack.training.evaluate import accuracy_at
from statetrack.training.sweep import Job

STATES = (4, 8, 16, 32, 64)
KINDS = ("maps", "permutations")
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""N as a multiple of S; S - 1 is run too."""
LENGTHS = (40, 256)
N_TEST = 128
_WORKS = 0.99
_WORDS, _LENGTH = 32, 64


def sizes(states: int) -> list[int]:
    """All N for automata with so many states.

    >>> sizes(4)
    [2, 3, 4, 8, 16]
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
                "dictionary_size": 64,
                "dictionary_init": "permutation" if kind == "permutations" else "normal",
                "dictionary_scale": 0.5,
                "d_field": "real",
                "modulus": "unit",
                "additive_input": False,
            },
        ),
        optim=OptimConfig(lr=5e-3, decay_steps=100),
        lengths=LengthConfig(low=1, high=40, start=2, growth=1.5, threshold=0.9, retreat=0.7),
        evaluation=EvalConfig(every=100, low=40, high=80, n=128, stop_at=0.999),
        seed=seed,
        steps=16_000,
        batch_size=64,
        restart_after=800 if kind == "permutations" else 1600,
    )


@register("state-size")
class StateSize(RunsRecipe):
    """Accuracy and use of the state against N for automata with 4 to 64 states, one seed."""

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
            "used": f"rank of the states visited on {_WORDS} words of {_LENGTH} symbols",
        }

    def measure(self, run: Run) -> dict[str, Any]:
        """States used, and the automaton that the run computes with the smallest layer that has it."""
        model = run.load_model()
        words = run.task.sample(_WORDS, _LENGTH, stream(run.config.seed, "validation", _LENGTH)).inputs
        use = state_use(model.layers[0], layer_inputs(model, words)[0], centred=False)
        found: dict[str, Any] = {"used": int(use.rank[0]), "participation": float(use.participation[0]), "compressed": None}
        try:
            read = read_off(model, grammar_of(run.task), np.random.default_rng(run.config.seed))
        except InvalidInputError as error:
            return {**found, "refused": str(error)}
        return {**found, "compressed": _compressed(run, read)}

    def table(self, result: dict[str, Any]) -> str:
        """For each automaton, by N: test accuracy (%) at the greatest length and, in brackets, the states used; then the smallest
        N that works, and the size to which the model with the largest N is reduced."""
        lines = [
            "| automaton | states S | accuracy at 256 (states used) by N | smallest N that works | theory | 4 S reduced to |",
            "|---|---|---|---|---|---|",
        ]
        done = {run["run"]: run for run in result["runs"] if run["status"] == "done"}
        for kind in KINDS:
            for states in STATES:
                runs = {n: done[name] for n in sizes(states) if (name := run_name(kind, states, n)) in done}
                if runs:
                    found = {n: run["accuracy"][str(LENGTHS[-1])] for n, run in runs.items()}
                    cells = ", ".join(f"{n}: {100 * share:.1f} ({runs[n]['measured']['used']})" for n, share in found.items())
                    least = smallest_working(found)
                    smallest = "none" if least is None else str(least)
                    reduced = _reduced(runs.get(4 * states))
                    lines.append(f"| {kind} | {states} | {cells} | {smallest} | {states} | {reduced} |")
        return "\n".join(lines)


def run_name(kind: str, states: int, d_state: int) -> str:
    """The name of a run's folder."""
    return f"{kind}-{states}-states-N{d_state}-0"


def smallest_working(found: dict[int, float]) -> int | None:
    """The smallest N whose accuracy counts as working, or None."""
    return min((d_state for d_state, share in found.items() if share >= _WORKS), default=None)


def _compressed(run: Run, read: WhiteBox) -> dict[str, Any]:
    """The smallest layer with the automaton that was read off a run, and how it does."""
    small = construct(run.config.layer, read.automaton)
    return {
        "d_state": small.config.layer["d_state"],
        "accuracy": accuracy_at(small, run.task, LENGTHS[-1], N_TEST, run.config.seed),
        "exact": difference(read.automaton, specification(run.task).automaton()) is None,
        "unexplained": read.unexplained,
    }


def _reduced(run: dict[str, Any] | None) -> str:
    """The cell about the size to which a run is reduced."""
    small = None if run is None else run["measured"]["compressed"]
    if small is None:
        return "not run" if run is None else "none"
    exact = "the automaton itself" if small["exact"] else f"{100 * small['accuracy']:.1f} % right"
    return f"{small['d_state']} ({exact})"
