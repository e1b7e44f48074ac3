"""Four-class rhythm from one lead of ECG, 9 to 60 seconds long: normal, atrial fibrillation, other rhythm, too noisy.

Each class is split 70/15/15 at random, the same for all methods; the score is the mean F1 of the four classes, since two of them
are rare. Data: PhysioNet/CinC Challenge 2017 (300 Hz), as ``cinc2017_1700.npz`` with the arrays ``signal``, ``offset`` and
``label``.
"""

from __future__ import annotations

import statistics
from functools import lru_cache
from typing import Any

import numpy as np

from statetrack.recipes.base import register
from statetrack.recipes.series_methods import Parts
from statetrack.recipes.series_runs import SeriesJob, SeriesRecipe
from statetrack.recipes.uea import cell
from statetrack.timeseries.archive import find_file
from statetrack.timeseries.array_files import read_npz
from statetrack.timeseries.pooled import Split
from statetrack.timeseries.ts_file import Cases

FILE = "cinc2017_1700.npz"
LAYERS = ("flash-pd-ssm", "linoss", "mamba")
LONGEST = 18_000
RUNS = (0, 1, 2)
_SOURCE = "https://physionet.org/content/challenge-2017 (training set, as arrays: see statetrack.timeseries.array_files)"
_STATES = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}}


def ecg_settings(layer: str, preset: str) -> dict[str, Any]:
    """Settings of a run: ``cpu`` takes 32 samples (107 ms) as one token and 12 passes, ``full`` 4 and 100."""
    small = preset == "cpu"
    return {
        "layer_options": dict(_STATES.get(layer, {})),
        "d_model": 32 if small else 128,
        "n_layers": 2 if small else 4,
        "lr": 4e-3 if small else 1e-3,
        "max_epochs": 12 if small else 100,
        "patience": 12 if small else 20,
        "batch_size": 16,
        "patch": 32 if small else 4,
        "class_weight": "balanced",
    }


@register("ecg")
class Ecg(SeriesRecipe):
    """Three layers and MiniRocket on single-lead ECG, one split per run."""

    name = "ecg"
    summary = "Rhythm from single-lead ECG of up to 18,000 steps, macro-F1 against MiniRocket on the same split"
    presets = ("cpu", "full")

    def jobs(self) -> list[SeriesJob]:
        jobs = []
        for run in RUNS:
            jobs.append(SeriesJob("minirocket", "cinc2017", run, {}))
            jobs += [SeriesJob(layer, "cinc2017", run, ecg_settings(layer, self.preset)) for layer in LAYERS]
        return jobs

    def parts(self, job: SeriesJob) -> Parts:
        cases = _records()
        rows = stratified(cases.labels, job.seed)
        return Parts(*(Cases([cases.series[i] for i in part], cases.labels[part]) for part in rows))

    def protocol(self) -> dict[str, Any]:
        return {
            "split": "70/15/15 of each class at random, the same for all methods of a run; test part used once",
            "records": f"cut at {LONGEST} samples",
            "selection": "pass with the best validation accuracy, classes weighted alike; settings were not searched",
            "runs": list(RUNS),
            "baselines": "trained on the training part alone, records standardised and padded with zeros",
        }

    def table(self, result: dict[str, Any]) -> str:
        """Test macro-F1 and accuracy (%), mean ± deviation over runs (number of runs)."""
        lines = ["| method | macro-F1 | accuracy | F1 of A, N, O, ~ | CPU min per run |", "|---|---|---|---|---|"]
        for method in (*LAYERS, "minirocket"):
            runs = [run for run in result["runs"] if run["status"] == "done" and run["method"] == method]
            if runs:
                minutes = statistics.mean(run["cpu_minutes"] for run in runs)
                classes = ", ".join(f"{100 * share:.0f}" for share in f1_by_class(runs))
                cells = [cell(runs, "macro_f1"), cell(runs, "accuracy"), classes, f"{minutes:.1f}"]
                lines.append(f"| **{method}** | " + " | ".join(cells) + " |")
        return "\n".join(lines)


def f1_by_class(runs: list[dict[str, Any]]) -> list[float]:
    """F1 of each class from the confusions of all runs together."""
    confusion = np.sum([run["confusion"] for run in runs], axis=0)
    found: list[float] = (2 * np.diag(confusion) / (confusion.sum(0) + confusion.sum(1))).tolist()
    return found


def stratified(labels: np.ndarray[Any, Any], seed: int) -> Split:
    """70/15/15 of every class, in random order."""
    generator = np.random.default_rng(seed)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        for part, chosen in zip(parts, np.split(rows, [round(0.7 * len(rows)), round(0.85 * len(rows))]), strict=True):
            part.extend(chosen.tolist())
    return Split(*(generator.permutation(np.array(part, dtype=np.int64)) for part in parts))


@lru_cache(maxsize=1)
def _records() -> Cases:
    """Records standardised one by one, since gains differ between recordings."""
    cases = read_npz(find_file(FILE, source=_SOURCE))[0]
    series = [record[:LONGEST] for record in cases.series]
    return Cases([(record - record.mean()) / max(float(record.std()), 1e-6) for record in series], cases.labels)
