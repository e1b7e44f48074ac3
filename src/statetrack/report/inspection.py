"""One self-contained HTML page that looks inside a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import statetrack
from statetrack.analysis.inspection import Inspection, LayerView
from statetrack.analysis.recency import InfluenceCurve
from statetrack.layers import layers, names_of
from statetrack.report.figures import accuracy_figure
from statetrack.report.findings import findings
from statetrack.report.html import in_both_widths, rendered
from statetrack.report.inspection_figures import (
    CLASSES,
    automaton_figure,
    confusion_figure,
    influence_figure,
    smoothing_figure,
    spectra_figure,
    use_figure,
)
from statetrack.report.tables import percent, shortened
from statetrack.report.verdict import verdict
from statetrack.training import Run
from statetrack.training.files import write_text

NAMES = {
    "spectra": "Eigenvalues",
    "influence": "Memory",
    "smoothing": "Smoothing",
    "state": "State",
    "answers": "Answers",
    "automaton": "Automaton",
}


def write_inspection(run: Run, found: Inspection, out: str | Path | None = None) -> Path:
    """Write the page.

    Args:
        run: the run.
        found: what ``inspect_run`` measured.
        out: the file; ``inspect.html`` in the run folder if None.

    Returns:
        The file.

    Raises:
        RunError: a disk that refuses.
    """
    out = run.path / "inspect.html" if out is None else Path(out)
    write_text(out, render_inspection(run, found))
    return out


def render_inspection(run: Run, found: Inspection) -> str:
    """The page about a run and what was measured inside it."""
    return rendered("inspect.html.j2", _content(run, found))


def _content(run: Run, found: Inspection) -> dict[str, Any]:
    config = run.config
    trained = (config.lengths.low, config.lengths.high)
    has_spectra = any(layer.single is not None for layer in found.layers)
    drawn = max(len(each.classes) for each in found.confusions) <= CLASSES
    said = findings(found)
    missing = [f"Layer {i}: no {what}. {why}" for i, layer in enumerate(found.layers, 1) for what, why in layer.missing.items()]
    return {
        "verdict": verdict(found.accuracy, config),
        "config": config,
        "task": run.task,
        "said": said,
        "names": NAMES,
        "found": found,
        "facts": {
            "layers": " | ".join(names_of(config.layer)) if len(found.layers) > 1 else config.layer,
            "blocks": str(len(found.layers)),
            "words looked at": f"{found.words} of {found.length} tokens",
            "test words": f"{found.accuracy.n} at each length",
            "seed": str(config.seed),
        },
        "chance": percent(found.accuracy.chance),
        "spectra": in_both_widths(lambda **size: spectra_figure(found.layers, **size), "spectra") if has_spectra else {},
        "structures": {name: layers.get(name).traits.spectrum for name in dict.fromkeys(names_of(config.layer))},
        "influence": in_both_widths(lambda **size: influence_figure(found.influence, found.layers, **size), "influence"),
        "curve": _curve(found.influence),
        "smoothing": in_both_widths(lambda **size: smoothing_figure(found.smoothing, **size), "smoothing"),
        "bounds": _bounds(found),
        "use": in_both_widths(lambda **size: use_figure(found.layers, **size), "use"),
        "rows": [_row(i, layer) for i, layer in enumerate(found.layers, 1)],
        "missing": missing,
        "accuracy": in_both_widths(lambda **size: accuracy_figure(found.accuracy, trained, **size), "accuracy"),
        "confusion": in_both_widths(lambda **size: confusion_figure(found.confusions, **size), "confusion") if drawn else {},
        "mistakes": [(each, each.most_confused()) for each in found.confusions],
        "picture": {} if found.extraction is None else _pictures(found),
        "path": str(run.path),
        "facts_of_automaton": _facts(found),
        "version": statetrack.__version__,
    }


def _pictures(found: Inspection) -> dict[str, str]:
    extraction = found.extraction
    assert extraction is not None
    drawn = in_both_widths(lambda **size: automaton_figure(extraction, **size), "automaton")
    return {kind: svg for kind, svg in drawn.items() if svg}


def _curve(curve: InfluenceCurve) -> dict[str, str]:
    middle = len(curve.far_share) // 2
    far, gain = float(curve.far_share[middle]), curve.first_token_gain
    return {
        "half-life": _number(curve.half_life, "tokens"),
        f"from {middle} tokens back or more": percent(far) if far == far else "not measured",
        "first token against the next two": _number(gain, "times") if gain == gain else "not measured",
    }


def _bounds(found: Inspection) -> list[str]:
    return [
        f"Layer {i}: states of one word differ by up to {bound.measured:.3g} in an entry; the theorem allows {bound.bound:.3g}"
        + (f", for the {percent(1 - bound.held_entries)} of the entries that forget." if bound.held_entries else ".")
        for i, bound in enumerate(found.smoothing.bounds, 1)
        if bound is not None and bound.held_entries < 1
    ]


def _row(i: int, layer: LayerView) -> dict[str, str]:
    use, effective = layer.use, layer.effective
    return {
        "layer": f"{i} {layer.name}",
        "heads": "" if use is None or use.of != "states" else str(len(use.rank)),
        "size": "" if use is None else str(use.size),
        "participation": "" if use is None else f"{float(use.participation.mean()):.3g}",
        "entropy": "" if use is None else f"{float(use.entropy_rank.mean()):.3g}",
        "effective": "" if layer.effective_size is None else f"{layer.effective_size:.3g}",
        "tokens": "" if effective is None else str(layer.effective_length),
        "half_life": "" if layer.influence is None else _number(layer.influence.half_life, ""),
    }


def _facts(found: Inspection) -> dict[str, str]:
    extraction = found.extraction
    if extraction is None:
        return {}
    how = {"selections": "read off the selections", "kv": "learnt by KV", "lstar": "learnt by L*"}[extraction.method]
    facts = {
        "states": f"{extraction.automaton.n_states}, {how}",
        "answers as the network gives them": ", ".join(
            f"{percent(share)} at length {length:,}" for length, share in extraction.agreement.items()
        ),
    }
    if extraction.differs is not None:
        facts["differs from the task's after"] = shortened(list(extraction.differs), 24)
    if extraction.monoid is not None:
        facts["transition monoid"] = f"{extraction.monoid['size']:,} elements"
    return facts


def _number(value: float, unit: str) -> str:
    text = "none" if value != value else "\u221e" if value == float("inf") else f"{value:.3g}"
    return f"{text} {unit}".strip()
