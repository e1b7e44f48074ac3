"""Spoken digits from raw audio: ten classes, six speakers, 0.1 to 2.3 seconds at 8 kHz.

The official test part is recordings 0 to 4 of every speaker and digit; 15 % of each digit's other recordings validate. Data: Free
Spoken Digit Dataset, as ``fsdd.npz`` with the arrays ``signal``, ``offset``, ``label`` and ``index``.
"""

from __future__ import annotations

import statistics
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError
from statetrack.recipes.base import register
from statetrack.recipes.series_methods import Parts
from statetrack.recipes.series_runs import SeriesJob, SeriesRecipe
from statetrack.recipes.uea import cell
from statetrack.timeseries.archive import find_file
from statetrack.timeseries.array_files import read_npz
from statetrack.timeseries.ts_file import Cases

FILE = "fsdd.npz"
LAYERS = ("flash-pd-ssm", "linoss", "mamba")
RUNS = (0, 1, 2)
_SOURCE = "https://github.com/Jakobovski/free-spoken-digit-dataset (as arrays: see statetrack.timeseries.array_files)"
_STATES = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}}
_OFFICIAL = 5
_VALIDATION = 0.15


def digit_settings(layer: str, preset: str) -> dict[str, Any]:
    """Settings of a run: ``cpu`` takes 32 samples (4 ms) as one token and 15 passes, ``full`` 4 and 60."""
    small = preset == "cpu"
    return {
        "layer_options": dict(_STATES.get(layer, {})),
        "d_model": 32 if small else 96,
        "n_layers": 2 if small else 4,
        "lr": 4e-3 if small else 2e-3,
        "max_epochs": 15 if small else 60,
        "patience": 15,
        "batch_size": 32,
        "patch": 32 if small else 4,
    }


@register("digits")
class Digits(SeriesRecipe):
    """Three layers and MiniRocket on raw audio, the official test part."""

    name = "digits"
    summary = "Spoken digits from raw audio of up to 18,262 samples, official test part, against MiniRocket"
    presets = ("cpu", "full")

    def jobs(self) -> list[SeriesJob]:
        return [
            SeriesJob(method, "fsdd", run, {} if method == "minirocket" else digit_settings(method, self.preset))
            for run in RUNS
            for method in ("minirocket", *LAYERS)
        ]

    def parts(self, job: SeriesJob) -> Parts:
        cases, index = _recordings()
        rows = official(cases.labels, index, job.seed)
        return Parts(*(Cases([cases.series[i] for i in part], cases.labels[part]) for part in rows))

    def protocol(self) -> dict[str, Any]:
        return {
            "split": "official test part (recordings 0 to 4 of a speaker and digit), used once; 15 % of the rest validate",
            "selection": "pass with the best validation accuracy; settings were not searched",
            "runs": list(RUNS),
            "baselines": "trained on the training part alone, recordings padded with zeros",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%), mean ± deviation over runs (number of runs)."""
        lines = ["| method | accuracy | CPU min per run |", "|---|---|---|"]
        for method in (*LAYERS, "minirocket"):
            runs = [run for run in result["runs"] if run["status"] == "done" and run["method"] == method]
            if runs:
                minutes = statistics.mean(run["cpu_minutes"] for run in runs)
                lines.append(f"| **{method}** | {cell(runs, 'accuracy')} | {minutes:.1f} |")
        return "\n".join(lines)


def official(labels: npt.NDArray[Any], index: npt.NDArray[np.int64], seed: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Indices of the training, validation and test part."""
    generator = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero((labels == label) & (index >= _OFFICIAL)))
        held[rows[: round(_VALIDATION * len(rows))]] = True
    test = index < _OFFICIAL
    return np.flatnonzero(~held & ~test), np.flatnonzero(held), np.flatnonzero(test)


@lru_cache(maxsize=1)
def _recordings() -> tuple[Cases, npt.NDArray[np.int64]]:
    """Recordings in units of the largest sample."""
    path = find_file(FILE, source=_SOURCE)
    cases = read_npz(path)[0]
    with np.load(path) as arrays:
        if "index" not in arrays or arrays["index"].shape != cases.labels.shape:
            raise InvalidInputError(f"{path} needs an array index with the number of each recording.")
        index = arrays["index"].astype(np.int64)
    return Cases([recording / np.float32(32768) for recording in cases.series], cases.labels), index
