"""An automaton as a picture: states on a circle, one arrow for all symbols that lead the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError

_COLOURS = ("#cfe3f3", "#fbdcc4", "#c9ebdd", "#f3dbe8", "#faecc5", "#d9f0fb", "#e4e4e4")
_INK, _EDGE = "#1b1f24", "#5b6570"
_ON_COLOUR = "#1b1f25"
"""Ink on the pale discs, which stay pale on a dark page."""
_SUFFIXES = (".png", ".svg", ".pdf")
_MOST = 200
LABELLED = 30
"""Above so many states a picture shows arrows without symbols."""


def draw(automaton: Automaton, path: Path, *, title: str, no_question: int) -> None:
    """Write a picture; without the state that words which cannot come end in.

    Args:
        automaton: up to 200 states.
        path: ends in ``.png``, ``.svg`` or ``.pdf``.
        title: said above it.
        no_question: the class of states where nothing is asked, which get no label.

    Raises:
        InvalidInputError: too many states, or another kind of file.
    """
    if path.suffix not in _SUFFIXES:
        raise InvalidInputError(f"A picture ends in {', '.join(_SUFFIXES)}; got {path.name!r}.")
    figure = picture(automaton, no_question=no_question)
    figure.axes[0].set_title(title, fontsize=11, color=_INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144, metadata={"Date": None} if path.suffix == ".svg" else None)


def picture(automaton: Automaton, *, no_question: int, paper: str = "white", width: float | None = None) -> Any:
    """The picture as a matplotlib figure.

    Args:
        automaton: up to 200 states.
        no_question: the class of states where nothing is asked, which get no label.
        paper: colour behind labels.
        width: in inches; None means what the number of states takes.

    Raises:
        InvalidInputError: too many states.
    """
    if automaton.n_states > _MOST:
        raise InvalidInputError(f"An automaton with {automaton.n_states} states makes no picture; {_MOST} is the most.")
    from matplotlib.figure import Figure

    shown = _shown(automaton, no_question)
    n = len(shown)
    place = {state: i for i, state in enumerate(shown)}
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    centre = np.column_stack([np.cos(angle), np.sin(angle)]) * (0 if n == 1 else 1)
    radius = min(0.22, 2.2 / max(n, 4) / 1.6)
    size = (6.4, 6.8) if n <= LABELLED else (11, 11.4)
    figure = Figure(figsize=size if width is None else (width, width), layout="constrained")
    axes: Any = figure.subplots()
    axes.set_aspect("equal")
    axes.set_axis_off()
    edge = 1.08 + 2.2 * radius
    axes.set_xlim(-edge, edge)
    axes.set_ylim(-edge, edge)
    for (source, after), symbols in _arrows(automaton).items():
        if source not in place or after not in place:
            continue
        begin, end = place[source], place[after]
        label = ", ".join(symbols) if n <= LABELLED else ""
        if begin == end:
            _loop(axes, centre[begin], angle[begin], radius, label, paper)
        else:
            _arrow(axes, centre[begin], centre[end], radius, label, paper)
    _start(axes, centre[place[automaton.start]], angle[place[automaton.start]], radius)
    classes = {c: i for i, c in enumerate(np.unique(automaton.outputs[automaton.outputs != no_question]).tolist())}
    for state, i in place.items():
        output = int(automaton.outputs[state])
        colour = paper if output == no_question else _COLOURS[classes[output] % len(_COLOURS)]
        _disc(axes, centre[i], radius, colour, "" if output == no_question else str(output))
    return figure


def _shown(automaton: Automaton, no_question: int) -> list[int]:
    """All states but the one that words which cannot come end in."""
    stays = (automaton.transitions == np.arange(automaton.n_states)[:, None]).all(axis=1)
    dead = stays & (automaton.outputs == no_question) & (np.arange(automaton.n_states) != automaton.start)
    return np.flatnonzero(~dead).tolist()


def _arrows(automaton: Automaton) -> dict[tuple[int, int], list[str]]:
    names = automaton.symbols or tuple(str(symbol) for symbol in range(automaton.n_symbols))
    found: dict[tuple[int, int], list[str]] = {}
    for (state, symbol), after in np.ndenumerate(automaton.transitions):
        found.setdefault((state, int(after)), []).append(names[symbol])
    return found


def _disc(axes: Any, centre: np.ndarray, radius: float, colour: str, label: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(tuple(centre), radius, facecolor=colour, edgecolor=_INK, linewidth=1.2, zorder=3))
    axes.text(*centre, label, ha="center", va="center", fontsize=max(5, 60 * radius), color=_ON_COLOUR, zorder=4)


def _patch(axes: Any, begin: np.ndarray, end: np.ndarray, bend: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    style = f"arc3,rad={bend}"
    arrow = FancyArrowPatch(
        tuple(begin), tuple(end), arrowstyle="-|>", mutation_scale=11, connectionstyle=style, color=_EDGE, lw=0.9
    )
    axes.add_patch(arrow)


def _arrow(axes: Any, source: np.ndarray, after: np.ndarray, radius: float, label: str, paper: str) -> None:
    """A bent arrow, so that the way back does not lie on it."""
    along = (after - source) / np.linalg.norm(after - source)
    side = np.array([along[1], -along[0]])
    bend = 0.18
    lean = np.array([along + 0.55 * side, -along + 0.55 * side])
    begin, end = source + radius * lean[0] / np.linalg.norm(lean[0]), after + radius * lean[1] / np.linalg.norm(lean[1])
    _patch(axes, begin, end, bend)
    bow = (begin + end) / 2 + side * bend * np.linalg.norm(end - begin)
    t = 0.35  # near its source, where fewer arrows cross than in the middle
    _label(axes, (1 - t) ** 2 * begin + 2 * t * (1 - t) * bow + t**2 * end, label, paper)


def _label(axes: Any, place: np.ndarray, label: str, paper: str) -> None:
    if label:
        around = {"boxstyle": "round,pad=0.15", "facecolor": paper, "edgecolor": "none"}
        axes.text(*place, label, ha="center", va="center", fontsize=9, color=_INK, zorder=2, bbox=around)


def _loop(axes: Any, centre: np.ndarray, angle: float, radius: float, label: str, paper: str) -> None:
    turn = np.array([[angle - 0.5], [angle + 0.5]])
    begin, end = centre + radius * np.column_stack([np.cos(turn), np.sin(turn)])
    _patch(axes, begin, end, 1.9)
    outward = np.array([np.cos(angle), np.sin(angle)])
    _label(axes, centre + 1.95 * radius * outward, label, paper)


def _start(axes: Any, centre: np.ndarray, angle: float, radius: float) -> None:
    towards = np.array([np.cos(angle + 0.9), np.sin(angle + 0.9)])
    _patch(axes, centre + 2.2 * radius * towards, centre + radius * towards, 0.0)
