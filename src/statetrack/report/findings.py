"""What an inspection shows, in plain sentences."""

from __future__ import annotations

import math

from statetrack.analysis.inspection import Inspection, LayerView
from statetrack.report.tables import percent

_FLAT = 0.9
"""Distances between tokens that keep this share over the depth are kept."""


def findings(found: Inspection) -> dict[str, str]:
    """One sentence for each section of the page, by the section's id."""
    return {
        "spectra": _spectra(found.layers),
        "influence": _influence(found),
        "smoothing": _smoothing(found),
        "state": _state(found.layers),
        "answers": _answers(found),
        "automaton": _automaton(found),
    }


def _spectra(layers: list[LayerView]) -> str:
    shown = [layer for layer in layers if layer.word is not None]
    if not shown:
        return "Its layers have no transition matrices."
    rates = [float(layer.word.rates.max()) for layer in shown if layer.word is not None]
    length = max(layer.word.length for layer in shown if layer.word is not None)
    if len({f"{rate:.3g}" for rate in rates}) == 1:
        kept = f"{'Each layer' if len(rates) > 1 else 'The layer'}'s slowest direction keeps a factor of {rates[0]:.3g}"
    else:
        kept = f"The slowest direction of a layer keeps a factor of {min(rates):.3g} to {max(rates):.3g}"
    kinds = [
        word
        for word, there in (
            ("negative", any(layer.single.shares().negative > 0 for layer in shown if layer.single is not None)),
            ("complex", any(layer.single.shares().complex > 0 for layer in shown if layer.single is not None)),
        )
        if there
    ]
    turns = f"some eigenvalues are {' and some '.join(kinds)}" if kinds else "no eigenvalue is negative or complex"
    return f"{kept} per token over {length} tokens; {turns}."


def _influence(found: Inspection) -> str:
    curve = found.influence
    longest = len(curve.mean_log) - 1
    zeros = float(curve.zeros[1:].sum() / curve.pairs[1:].sum()) if longest else 0.0
    none = f" On {percent(zeros)} of the pairs there is no influence at all." if zeros else ""
    if math.isnan(curve.half_life):
        return f"No token influences a later output.{none}" if zeros == 1 else f"Too few distances to fit a rate.{none}"
    if math.isinf(curve.half_life) or curve.half_life > longest:
        return f"A token's influence does not halve over the {longest} tokens that were looked at.{none}"
    return f"A token's influence halves every {curve.half_life:.3g} tokens, by the fitted line.{none}"


def _smoothing(found: Inspection) -> str:
    first, last = found.smoothing.blocks[0].relative, found.smoothing.blocks[-1].relative
    depth = len(found.smoothing.blocks) - 1
    passed = "the block" if depth == 1 else f"{depth} blocks"
    if not first:
        return "The words that were looked at repeat one token: nothing could be told apart to begin with."
    ratio = last / first
    what = "kept" if _FLAT <= ratio <= 1 / _FLAT else "made sharper" if ratio > 1 else "blurred"
    return f"Differences between tokens are {what}: {passed} take{'s' * (depth == 1)} them from {first:.2f} to {last:.2f}."


def _state(layers: list[LayerView]) -> str:
    parts = []
    for i, layer in enumerate(layers, 1):
        if layer.use is not None and layer.use.of == "states":
            which = f"layer {i}" if len(layers) > 1 else "a head"
            parts.append(f"{which} {float(layer.use.participation.mean()):.3g} of {layer.use.size}")
    if not parts:
        return "Its layers keep a cache that grows with every token, and no state of a size of its own."
    return f"Dimensions that the states occupy (participation ratio): {', '.join(parts)}."


def _answers(found: Inspection) -> str:
    last = found.confusions[-1]
    wrong = last.most_confused(1)
    start = f"At length {last.length:,}, {percent(last.accuracy)} of the answers are right"
    if not wrong:
        return f"{start}."
    right, given, count = wrong[0]
    total = round(int(last.times.sum()) * (1 - last.accuracy))
    return f"{start}; the commonest mistake is {given} in place of {right} ({percent(count / total)} of all mistakes)."


def _automaton(found: Inspection) -> str:
    if found.extraction is None:
        return f"None was extracted. {found.no_extraction}"
    states = found.extraction.automaton.n_states
    whole = found.extraction.details.get("complete", True)
    size = f"{states} state{'s' * (states != 1)}" if whole else f"At least {states} states, where learning was stopped"
    if found.extraction.target is None or found.extraction.equivalent is None:
        return f"{size}."
    if found.extraction.equivalent:
        return f"{size}, and equal to the automaton of the task."
    return f"{size}; that of the task has {found.extraction.target.n_states}, and the two differ."
