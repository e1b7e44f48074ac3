"""One self-contained HTML page about a run: it needs no network and follows the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import statetrack
from statetrack.layers import layers, names_of
from statetrack.report.figures import accuracy_figure, learning_figure
from statetrack.report.html import in_both_widths as _in_both_widths
from statetrack.report.html import rendered
from statetrack.report.reproduce import folded, train_command
from statetrack.report.tables import DASH, interval, percent
from statetrack.report.verdict import verdict
from statetrack.training import Run
from statetrack.training.files import write_text
from statetrack.training.measure import Measurement, default_lengths, measure, remembered_lengths, wilson_interval
from statetrack.training.settings import settings

_TRAITS = ("structure", "spectrum", "input_dependent", "one_layer", "deeper", "source")


def write_report(run: Run, out: str | Path | None = None, *, lengths: Sequence[int] = (), n: int = 512) -> Path:
    """Write the page about a run.

    Args:
        run: the run.
        out: the file; ``report.html`` in the run folder if None.
        lengths: test lengths; none means those tested so far, or else the usual ones.
        n: test words per length.

    Returns:
        The file.

    Raises:
        InvalidInputError: a length the task cannot make.
        RunError: a run without a checkpoint, or a disk that refuses.
    """
    out = run.path / "report.html" if out is None else Path(out)
    asked = lengths or sorted({*default_lengths(run), *remembered_lengths(run, n)})
    write_text(out, render(run, measure(run, asked, n=n, reuse=True)))
    return out


def render(run: Run, found: Measurement) -> str:
    """The page about a run and what was measured."""
    return rendered("report.html.j2", _content(run, found))


def _content(run: Run, found: Measurement) -> dict[str, Any]:
    config, now, records = run.config, run.progress(), run.metrics()
    trained = (config.lengths.low, config.lengths.high)
    traits = [layers.get(name).traits for name in dict.fromkeys(names_of(config.layer))]
    return {
        "verdict": verdict(found, config),
        "config": config,
        "task": run.task,
        "facts": {
            "training words": f"{trained[0]}{DASH}{trained[1]} symbols long",
            "steps": f"{now.step:,}",
            "processor time": _duration(now.cpu_seconds),
            "parameters": f"{sum(p.numel() for p in run.load_model().parameters()):,}",
            "seed": str(config.seed),
        },
        "found": found,
        "chance": percent(found.chance),
        "rows": [
            {
                "length": f"{length:,}",
                "ratio": f"{length / trained[1]:,.3g}" if length > trained[1] else "",
                "accuracy": percent(share),
                "interval": interval(*found.interval(length)),
                "share": share,
            }
            for length, share in found.accuracy.items()
        ],
        "pooled": _pooled_row(found),
        "accuracy_figures": _in_both_widths(lambda **size: accuracy_figure(found, trained, **size), "accuracy"),
        "learning_figures": _in_both_widths(lambda **size: learning_figure(records, **size), "learning") if records else {},
        "validation": f"{config.evaluation.n} words of length {config.evaluation.low}{DASH}{config.evaluation.high}",
        "traits": {name.replace("_", " "): " | ".join(str(getattr(each, name)) for each in traits) for name in _TRAITS},
        "settings": settings(config),
        "commands": [
            folded(train_command(config, str(run.path))),
            folded(f"statetrack eval {run.path} --n {found.n} --lengths {' '.join(map(str, found.accuracy))}"),
        ],
        "version": statetrack.__version__,
    }


def _pooled_row(found: Measurement) -> dict[str, str] | None:
    if found.pooled is None:
        return None
    low, high, n, share = (found.pooled[key] for key in ("low", "high", "n", "accuracy"))
    return {"length": f"{low}{DASH}{high}", "accuracy": percent(share), "interval": interval(*wilson_interval(share, n))}


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
