"""Long Range Arena: nested lists, reviews byte by byte, and images pixel by pixel, one class per sequence.

Lists are generated here. Reviews are ``IMDB/train.jsonl.xz`` and ``IMDB/test.jsonl.xz`` (a line per review with ``text`` and
``label``), images ``CIFAR10Gray.npz`` (arrays ``X (60000, 1024)`` of luma 0 to 255, ``y`` and ``n_train``), both supplied by the
user. Source: Long Range Arena (arXiv 2011.04006); published rows from the table of PD-SSM (arXiv 2509.22284).
"""

from __future__ import annotations

import json
import lzma
import statistics
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.recipes.base import register
from statetrack.recipes.series_methods import Parts
from statetrack.recipes.series_runs import SeriesJob, SeriesRecipe
from statetrack.recipes.uea import cell
from statetrack.tasks import make_task
from statetrack.tasks.streams import Split, stream
from statetrack.timeseries.archive import find_file, load_set
from statetrack.timeseries.ts_file import Cases

SETS = ("listops", "text", "image")
LAYERS = ("flash-pd-ssm", "pd-ssm", "linoss", "lru", "s5", "mamba")
PUBLISHED: dict[str, tuple[float, float, float]] = {
    "S4": (59.6, 86.8, 88.6),
    "LRU": (60.2, 89.4, 89.0),
    "Mamba": (38.0, 83.0, 69.8),
    "S7": (63.8, 87.2, 61.1),
    "PD-SSM": (61.0, 88.1, 70.4),
}
"""Accuracy (%) in the order of ``SETS``, mean of three runs."""
SIZES: dict[str, dict[str, tuple[int, int, int, int]]] = {
    "cpu": {"listops": (2000, 200, 500, 128), "text": (1000, 100, 500, 512), "image": (1000, 100, 500, 1024)},
    "full": {"listops": (96_000, 2000, 2000, 2000), "text": (22_500, 2500, 25_000, 4096), "image": (45_000, 5000, 10_000, 1024)},
}
"""Preset and set to numbers of training, validation and test cases and the longest length."""
_HELD_OUT = 0.1
_REVIEWS = "https://ai.stanford.edu/~amaas/data/sentiment (as lines of JSON: see statetrack.recipes.lra)"
_STATES = {"flash-pd-ssm": {"d_state": 16, "n_heads": 4}, "pd-ssm": {"d_state": 16, "n_heads": 4}}


def lra_settings(layer: str, data: str, preset: str) -> dict[str, Any]:
    """Settings of a run; ``full`` has the published depth and width, ``cpu`` is a small try."""
    small = preset == "cpu"
    return {
        "layer_options": dict(_STATES.get(layer, {})) if small else {"d_state": 128},
        "d_model": 32 if small else 128,
        "n_layers": 2 if small else 4,
        "scaling": "channels" if data == "image" else "one-hot",
        "lr": 3e-3 if small else 1e-3,
        "max_epochs": 10 if small else 50,
        "batch_size": 32,
    }


@register("lra")
class LongRangeArena(SeriesRecipe):
    """Six layers on three tasks of Long Range Arena."""

    name = "lra"
    summary = "Long Range Arena: ListOps (generated), reviews byte by byte and images pixel by pixel (supplied by the user)"
    presets = ("cpu", "full")

    def jobs(self) -> list[SeriesJob]:
        return [
            SeriesJob(layer, data, run, lra_settings(layer, data, self.preset))
            for run in range(1 if self.preset == "cpu" else 3)
            for data in SETS
            for layer in LAYERS
        ]

    def parts(self, job: SeriesJob) -> Parts:
        *sizes, longest = SIZES[self.preset][job.data]
        if job.data == "listops":
            names: tuple[Split, Split, Split] = ("train", "validation", "test")
            return Parts(*(expressions(size, longest, name) for size, name in zip(sizes, names, strict=True)))
        train, test = _reviews() if job.data == "text" else load_set("CIFAR10Gray")
        order, held = stream(0, "train").permutation(len(train.series)), round(_HELD_OUT * len(train.series))
        rows = order[held:][: sizes[0]], order[:held][: sizes[1]]
        picked = stream(0, "test").permutation(len(test.series))[: sizes[2]]
        return Parts(_cut(train, rows[0], longest), _cut(train, rows[1], longest), _cut(test, picked, longest))

    def protocol(self) -> dict[str, Any]:
        return {
            "cases": {
                data: dict(zip(("train", "validation", "test", "longest"), s, strict=True)) for data, s in self._sizes().items()
            },
            "selection": "pass with the best validation accuracy; test part used once; settings were not searched",
            "text": "bytes, cut at the longest length; training reviews that occur among the test reviews are left out",
        }

    def _sizes(self) -> dict[str, tuple[int, int, int, int]]:
        return SIZES[self.preset]

    def table(self, result: dict[str, Any]) -> str:
        """Test accuracy (%), and the published rows, whose lengths and numbers of cases are those of the preset ``full``."""
        lines = ["| layer | " + " | ".join(SETS) + " | CPU min per run |", "|---|" + "---|" * (len(SETS) + 1)]
        for layer in LAYERS:
            runs = [run for run in result["runs"] if run["status"] == "done" and run["method"] == layer]
            if runs:
                cells = [cell([run for run in runs if run["data"] == data], "accuracy") for data in SETS]
                minutes = statistics.mean(run["cpu_minutes"] for run in runs)
                lines.append(f"| **{layer}** | " + " | ".join(cells) + f" | {minutes:.1f} |")
        for name, row in PUBLISHED.items():
            lines.append(f"| {name} (published) | " + " | ".join(f"{share:.1f}" for share in row) + " | |")
        return "\n".join(lines)


def expressions(n: int, longest: int, part: Split) -> Cases:
    """Lists with their values as labels, the same in every run."""
    batch = make_task("listops").sample(n, longest, stream(0, part))
    tokens, lengths = batch.inputs.numpy(), batch.lengths.tolist()
    series = [row[:length, None].astype(np.float32) for row, length in zip(tokens, lengths, strict=True)]
    return Cases(series, batch.targets[batch.mask].numpy().astype(str))


def read_reviews(path: Path) -> tuple[list[bytes], list[str]]:
    """Texts in UTF-8 and labels of a ``.jsonl.xz`` file.

    Raises:
        InvalidInputError: a line is no review; the message names it.
    """
    texts, labels = [], []
    try:
        with lzma.open(path, "rt", encoding="utf8") as file:
            for i, line in enumerate(file, 1):
                try:
                    review = json.loads(line)
                    texts.append(review["text"].encode())
                    labels.append(str(review["label"]))
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise InvalidInputError(f"{path}, line {i}: expected an object with text and label.") from None
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}.") from error
    return texts, labels


@lru_cache(maxsize=1)
def _reviews() -> tuple[Cases, Cases]:
    (texts, labels), (test_texts, test_labels) = (
        read_reviews(find_file(f"IMDB/{part}.jsonl.xz", source=_REVIEWS)) for part in ("train", "test")
    )
    shared = set(test_texts)
    kept = [i for i, text in enumerate(texts) if text not in shared]
    longest = SIZES["full"]["text"][3]
    train = Cases([_bytes(texts[i][:longest]) for i in kept], np.array([labels[i] for i in kept]))
    return train, Cases([_bytes(text[:longest]) for text in test_texts], np.array(test_labels))


def _bytes(text: bytes) -> Any:
    return np.frombuffer(text or b"\0", dtype=np.uint8)[:, None].astype(np.float32)


def _cut(cases: Cases, rows: Any, longest: int) -> Cases:
    return Cases([cases.series[i][:longest] for i in rows], cases.labels[rows])
