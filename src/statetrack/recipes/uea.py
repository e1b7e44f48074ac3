"""Classification of multivariate series: the pooled protocol of the published tables, on any set of the UEA and UCR archives.

Every run pools the parts of a set, drops duplicates and splits 70/15/15; a layer's best pass is chosen on the validation part and
tested once. The preset ``cpu`` takes sets of moderate length and one setting for all layers, ``long`` the six long sets of the
published tables, with their stored splits and the settings that PD-SSM chose. Sources: Log-NCDE (arXiv 2402.18512), LinOSS
(arXiv 2410.03943), PD-SSM (arXiv 2509.22284).
"""

from __future__ import annotations

import statistics
from functools import lru_cache
from typing import Any

from statetrack.recipes.base import register
from statetrack.recipes.series_methods import BASELINES, Parts
from statetrack.recipes.series_runs import SeriesJob, SeriesRecipe, methods
from statetrack.recipes.uea_published import CHOSEN, PUBLISHED, SETS
from statetrack.timeseries.archive import load_set
from statetrack.timeseries.pooled import RUNS, pool, split
from statetrack.timeseries.ts_file import Cases
from statetrack.training.measure import wilson_interval

LAYERS = ("flash-pd-ssm", "pd-ssm", "linoss", "lru", "s5", "mamba")
SMALL: dict[str, tuple[int, int, int]] = {
    "BasicMotions": (60, 16, 1),
    "Libras": (100, 16, 1),
    "JapaneseVowels": (60, 16, 1),
    "StandWalkJump": (40, 8, 4),
    "ArticularyWordRecognition": (40, 16, 2),
    "Cricket": (40, 16, 4),
    "PenDigits": (15, 64, 1),
    "PigCVP": (40, 16, 8),
    "PLAID": (25, 32, 4),
}
"""Set to passes, batch size and patch of the preset ``cpu``."""
_STATES = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}, "pd-ssm": {"d_state": 16, "n_heads": 4}}


def small_settings(layer: str, data: str) -> dict[str, Any]:
    """Settings of the preset ``cpu``: the same for all layers but for the size of the state."""
    epochs, batch_size, patch = SMALL[data]
    return {
        "layer_options": dict(_STATES.get(layer, {})),
        "d_model": 32,
        "n_layers": 2,
        "lr": 4e-3,
        "max_epochs": epochs,
        "patience": max(10, epochs // 3),
        "batch_size": batch_size,
        "patch": patch,
    }


def long_settings(data: str) -> dict[str, Any]:
    """Settings of the preset ``long``, after what PD-SSM chose, with a constant learning rate and no scaling."""
    lr, blocks, width, states = CHOSEN[data]
    return {
        "layer_options": {"d_state": states},
        "d_model": width,
        "n_layers": blocks,
        "lr": lr,
        "schedule": "constant",
        "weight_decay": 0.0,
        "scaling": "none",
        "max_epochs": 1000,
        "patience": 100,
        "batch_size": 32,
    }


@register("uea")
class Uea(SeriesRecipe):
    """Six layers and two baselines on sets of the UEA and UCR archives, five runs."""

    name = "uea"
    summary = "Classification of multivariate series in the pooled 70/15/15 protocol, against MiniRocket and 1-NN DTW"
    presets = ("cpu", "long")

    def jobs(self) -> list[SeriesJob]:
        sets = tuple(SMALL) if self.preset == "cpu" else SETS
        return [
            SeriesJob(method, data, run, self._settings(method, data))
            for run in RUNS
            for data in sets
            for method in methods(LAYERS)
        ]

    def parts(self, job: SeriesJob) -> Parts:
        cases = _pooled(job.data)
        rows = split(job.data, len(cases.series), job.seed)
        return Parts(*(Cases([cases.series[i] for i in part], cases.labels[part]) for part in rows))

    def protocol(self) -> dict[str, Any]:
        return {
            "split": "pooled, duplicates dropped, 70/15/15; test part used once",
            "selection": "pass with the best validation accuracy; settings were not searched",
            "runs": list(RUNS),
            "baselines": "trained on the training part alone",
            "published": "best settings of a grid, mean and deviation of five runs",
        }

    def _settings(self, method: str, data: str) -> dict[str, Any]:
        if method in BASELINES:
            return {}
        return small_settings(method, data) if self.preset == "cpu" else long_settings(data)

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%), mean ± deviation over runs (number of runs), and the published rows below where there are any."""
        done = [run for run in result["runs"] if run["status"] == "done"]
        sets = [name for name in (*SMALL, *SETS) if any(run["data"] == name for run in done)]
        published = self.preset == "long"
        columns = list(SETS) if published else sets
        if not columns:
            return "No run is done yet."
        lines = ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
        for method in methods(LAYERS):
            runs = [run for run in done if run["method"] == method]
            if runs:
                cells = [cell([run for run in runs if run["data"] == name], "accuracy") for name in columns]
                lines.append(f"| **{method}** | " + " | ".join(cells) + " |")
        if done:
            lines.append("| cases in a test part | " + " | ".join(_sizes(done, name) for name in columns) + " |")
        if published:
            for name, row in PUBLISHED.items():
                lines.append(f"| {name} (published) | " + " | ".join(f"{a:.1f} ± {s:.1f}" for a, s in row) + " |")
        return "\n".join(lines)


def cell(runs: list[dict[str, Any]], measure: str) -> str:
    """Mean ± population deviation (%) of a measure over runs, and their number; of one run its 95 % interval if it is a share."""
    if not runs:
        return "not run"
    shares = [100 * run[measure] for run in runs]
    if len(runs) > 1:
        return f"{statistics.mean(shares):.1f} ± {statistics.pstdev(shares):.1f} ({len(runs)})"
    if measure != "accuracy":
        return f"{shares[0]:.1f} (1)"
    low, high = wilson_interval(runs[0]["accuracy"], runs[0]["n_test"])
    return f"{shares[0]:.1f} [{100 * low:.0f}, {100 * high:.0f}] (1)"


def _sizes(runs: list[dict[str, Any]], data: str) -> str:
    return ", ".join(sorted({str(run["n_test"]) for run in runs if run["data"] == data}))


@lru_cache(maxsize=1)
def _pooled(data: str) -> Cases:
    return pool(*load_set(data))
