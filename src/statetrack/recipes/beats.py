"""Beats of a half-hour ECG, one by one as it comes in: premature ventricular beats against all others.

A layer learns on three patients and reads the fourth, whom it has not seen, as a stream in blocks of a second; every beat is
classified when the middle between it and the next has come in. The same beats cut out of the record have to give the same
probabilities. Data: MIT-BIH Arrhythmia Database (two leads, 360 Hz, 650,000 steps a record), as WFDB files in the data folder.
"""

from __future__ import annotations

import statistics
import time
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from statetrack.recipes.base import register
from statetrack.recipes.series_methods import Parts, scores
from statetrack.recipes.series_runs import Entry, SeriesJob, SeriesRecipe
from statetrack.timeseries.archive import find_file
from statetrack.timeseries.ts_file import Cases
from statetrack.timeseries.wfdb_records import Record, read_wfdb

RECORDS = ("100", "106", "119", "208")
TESTED = ("106", "119", "208")
"""Record 100 has a single ventricular beat."""
LAYERS = ("flash-pd-ssm", "linoss", "mamba")
_BEATS = ("N", "A", "F", "S", "Q", "V")
_VENTRICULAR = "V"
_BLOCK = 360
_SOURCE = "https://physionet.org/content/mitdb"
_STATES = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}}


def beat_settings(layer: str) -> dict[str, Any]:
    """Settings of a run: 8 samples (22 ms) are one token."""
    return {
        "layer_options": dict(_STATES.get(layer, {})),
        "d_model": 24,
        "n_layers": 2,
        "max_epochs": 4,
        "batch_size": 64,
        "patch": 8,
        "class_weight": "balanced",
    }


@register("beats")
class Beats(SeriesRecipe):
    """Three layers, each patient in turn as the one that is streamed."""

    name = "beats"
    summary = "Ventricular beats in a stream of 650,000 steps, from a patient that training has not seen"
    presets = ("cpu",)

    def jobs(self) -> list[SeriesJob]:
        return [SeriesJob(layer, record, 0, beat_settings(layer)) for layer in LAYERS for record in TESTED]

    def parts(self, job: SeriesJob) -> Parts:
        cut = [cut_beats(_record(name)) for name in RECORDS if name != job.data]
        train = Cases([series for cases in cut for series in cases.series], np.concatenate([cases.labels for cases in cut]))
        return Parts(train, Cases([], np.array([])), cut_beats(_record(job.data)))

    def measure(self, job: SeriesJob) -> Entry:
        """Train, stream the record, and compare with its beats cut out."""
        from statetrack.timeseries import StateTrackClassifier
        from statetrack.timeseries.stream import classify_segments

        parts, record = self.parts(job), _record(job.data)
        began = time.process_time()
        model = StateTrackClassifier(job.method, random_state=job.seed, device="cpu", **job.settings)
        model.fit(parts.train.channels_first, parts.train.labels)
        trained = time.process_time()
        signal = record.signal.T
        blocks = (signal[:, start : start + _BLOCK] for start in range(0, signal.shape[1], _BLOCK))
        found = [proba for _, _, proba in classify_segments(model, blocks, borders(record).tolist())][1:]
        streamed = time.process_time()
        apart = np.abs(model.predict_proba(parts.test.channels_first) - found).max()
        predicted = model.classes_[np.argmax(found, axis=1)]
        truth = parts.test.labels
        right = ((predicted == _VENTRICULAR) & (truth == _VENTRICULAR)).sum()
        return {
            **scores(truth, predicted),
            "sensitivity": float(right / (truth == _VENTRICULAR).sum()),
            "precision": float(right / max(1, (predicted == _VENTRICULAR).sum())),
            "n_test": len(truth),
            "steps": signal.shape[1],
            "difference": float(apart),
            "cpu_minutes": round((trained - began) / 60, 3),
            "stream_cpu_seconds": round(streamed - trained, 2),
        }

    def protocol(self) -> dict[str, Any]:
        return {
            "split": "by patient: trained on the other records, tested once on the one that is named",
            "classes": "V against all other beats, weighted alike in training",
            "segments": "from the middle between a beat and the one before to that between it and the next",
            "stream": f"blocks of {_BLOCK} steps; difference: largest of a probability from that of the segment cut out",
        }

    def table(self, result: dict[str, Any]) -> str:
        """What is found of the ventricular beats of each patient (%), and how far the stream is from segments cut out."""
        lines = [
            "| layer | record | beats | accuracy | V found | V right | difference | CPU s of the stream | CPU min of training |",
            "|---|---|" + "---|" * 7,
        ]
        done = [run for run in result["runs"] if run["status"] == "done"]
        for run in done:
            shares = [f"{100 * run[name]:.1f}" for name in ("accuracy", "sensitivity", "precision")]
            more = [f"{run['difference']:.0e}", f"{run['stream_cpu_seconds']:.0f}", f"{run['cpu_minutes']:.1f}"]
            lines.append("| " + " | ".join([f"**{run['method']}**", run["data"], str(run["n_test"]), *shares, *more]) + " |")
        for layer in LAYERS:
            runs = [run for run in done if run["method"] == layer]
            if len(runs) == len(TESTED):
                shares = [
                    f"{100 * statistics.mean(run[n] for run in runs):.1f}" for n in ("accuracy", "sensitivity", "precision")
                ]
                lines.append(f"| **{layer}** | mean | | " + " | ".join(shares) + " | | | |")
        return "\n".join(lines)


def borders(record: Record) -> npt.NDArray[np.int64]:
    """Steps halfway between neighbouring beats."""
    positions = _beats(record)[0]
    return (positions[1:] + positions[:-1]) // 2


def cut_beats(record: Record) -> Cases:
    """Segments of all beats but the first and the last, labelled ``"V"`` or ``"other"``."""
    ends = borders(record)
    symbols = _beats(record)[1][1:-1]
    series = [record.signal[a:b] for a, b in pairwise(ends)]
    return Cases(series, np.where(symbols == _VENTRICULAR, _VENTRICULAR, "other"))


def _beats(record: Record) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    marks = record.annotations
    assert marks is not None
    kept = np.isin(marks.symbols, _BEATS)
    return marks.positions[kept], marks.symbols[kept]


@lru_cache(maxsize=len(RECORDS))
def _record(name: str) -> Record:
    return read_wfdb(find_file(f"{name}.hea", source=_SOURCE), annotator="atr")
