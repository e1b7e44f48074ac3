"""Networks as training leaves them, held against every word: proved right, refuted, or made exact.

Flash PD-SSM with its default settings; the same with a diagonal of modulus below 1, which fades; and a complex diagonal layer,
which turns. Each is certified, the certificate is given to the checker, and the network is snapped to exact weights and
run over one word of a million symbols.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from statetrack.analysis import NotSnapped, certify, check, snap, specification
from statetrack.errors import InvalidInputError
from statetrack.recipes.base import register
from statetrack.recipes.defaults import default_config
from statetrack.recipes.runs import RunsRecipe
from statetrack.training import Run
from statetrack.training.files import write_json
from statetrack.training.sweep import Job

LENGTHS = (40, 256, 1000)
MILLION = 1_000_000
NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "parity": ("flash-pd-ssm", "parity", {}),
    "cycle-navigation": ("flash-pd-ssm", "cycle-navigation", {}),
    "fading": ("flash-pd-ssm", "cycle-navigation", {"modulus": "sigmoid", "d_field": "complex"}),
    "turning": ("complex-diagonal", "cycle-navigation", {}),
}
"""Name of a network to its layer, its task and the layer's options beside the defaults."""
_BLOCK = 10_000


@register("certificates")
class Certificates(RunsRecipe):
    """Certificates of four trained networks, one seed."""

    name = "certificates"
    summary = "Trained networks proved right on words of every length, or refuted, and snapped to exact weights"
    presets = ("cpu",)

    def jobs(self, out: Path) -> list[Job]:
        return [
            Job(default_config(layer, task, layer_options=options), out / f"{name}-0", LENGTHS)
            for name, (layer, task, options) in NETWORKS.items()
        ]

    def protocol(self) -> dict[str, Any]:
        return {"shortest": "as in training", "long_word": MILLION, "times": "processor time of one thread"}

    def measure(self, run: Run) -> dict[str, Any]:
        """Verdict, times of search and checker, and what became of the network when it was snapped."""
        shortest = run.config.lengths.low
        began = time.process_time()
        stored = certify(run, shortest=shortest)
        found: dict[str, Any] = {
            "verdict": stored["verdict"],
            "statement": stored["statement"],
            "counterexample": stored.get("counterexample"),
            "search_seconds": round(time.process_time() - began, 2),
        }
        if stored["verdict"] == "certified":
            found |= _checked(stored, run, run.path / "certificate.json")
            found["errors_in_a_million"] = errors_on_a_long_word(run, MILLION)
        return {**found, "snapped": _snapped(run, shortest)}

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%), verdict, times, and the same after snapping."""
        lines = [
            "| network | layer | task | "
            + " | ".join(f"{length:,}" for length in LENGTHS)
            + " | verdict | search, s | checker, s | errors in 1,000,000 | snapped | errors in 1,000,000 |",
            "|---|---|---|" + "---|" * (len(LENGTHS) + 6),
        ]
        lines.extend(_row(run) for run in result["runs"] if run["status"] == "done")
        return "\n".join(lines)


def errors_on_a_long_word(run: Run, length: int) -> int:
    """Wrong answers on one uniform word of ``length`` symbols, of which every prefix that has an answer counts."""
    asked = specification(run.task).from_length(run.config.lengths.low)
    word = np.random.default_rng(run.config.seed).choice(asked.tokens, (1, length))
    expected = asked.expected(word)[0]
    model, state, given = run.load_model(), None, []
    with torch.no_grad():
        for begin in range(0, length, _BLOCK):
            scores, state = model(torch.from_numpy(word[:, begin : begin + _BLOCK]), state)
            given.append(scores[0].argmax(-1).numpy())
    return int(((np.concatenate(given) != expected) & (expected >= 0)).sum())


def _checked(stored: dict[str, Any], run: Run, path: Path) -> dict[str, Any]:
    write_json(path, stored)
    began = time.process_time()
    check(path, run)
    return {"checker_seconds": round(time.process_time() - began, 2)}


def _snapped(run: Run, shortest: int) -> dict[str, Any]:
    out = run.path / "snapped"
    try:
        snapped = snap(run, out, shortest=shortest) if not out.exists() else None
    except (NotSnapped, InvalidInputError) as error:
        return {"refused": str(error)}
    exact = Run.open(out)
    way = {} if snapped is None else {"way": snapped.way}
    return {**way, "verdict": "certified", "errors_in_a_million": errors_on_a_long_word(exact, MILLION)}


def _row(run: dict[str, Any]) -> str:
    found, name = run["measured"], run["run"].rsplit("-", 1)[0]
    snapped = found["snapped"]
    shares = [f"{100 * run['accuracy'][str(length)]:.1f}" for length in LENGTHS]
    times = [found["search_seconds"], found.get("checker_seconds")]
    cells = [
        name,
        f"`{run['layer']}`",
        run["task"],
        *shares,
        found["verdict"],
        *("" if value is None else f"{value:.1f}" for value in times),
        "" if "errors_in_a_million" not in found else f"{found['errors_in_a_million']:,}",
        "no" if "refused" in snapped else "certified",
        "" if "refused" in snapped else f"{snapped['errors_in_a_million']:,}",
    ]
    return "| " + " | ".join(cells) + " |"
