"""The figures of the page that looks inside a run, each as an inline SVG of a given width."""

from __future__ import annotations

import math
from typing import Any

import torch

from statetrack.analysis.extraction.extract import Extraction
from statetrack.analysis.extraction.picture import LABELLED, picture
from statetrack.analysis.inspection import Confusion, LayerView
from statetrack.analysis.recency import InfluenceCurve
from statetrack.analysis.smoothing import DepthSmoothing
from statetrack.report.discs import disc, said
from statetrack.report.style import INK, MUTED, PAPER, RULE, SERIES, SHADE, inline_svg, styled
from statetrack.report.tables import percent

CLASSES = 32
"""Most classes of a confusion matrix that is drawn."""
_NUMBERED = 8
_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}


def spectra_figure(layers: list[LayerView], *, width: float, name: str) -> str:
    """Two discs for each layer: single tokens and words."""
    from matplotlib.figure import Figure

    shown = [(i, layer) for i, layer in enumerate(layers, 1) if layer.single is not None and layer.word is not None]
    columns = 4 if width > 5 and len(shown) > 1 else 2
    rows = -(-2 * len(shown) // columns)
    with styled(name):
        figure = Figure(figsize=(width, rows * (width / columns + 0.95)), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for j, (i, layer) in enumerate(shown):
            assert layer.single is not None and layer.word is not None
            label = f"layer {i}, " if len(layers) > 1 else ""
            single, word = (said(each, per_line=1 if columns == 4 else 2) for each in (layer.single, layer.word))
            disc(panels[2 * j], layer.single, SERIES[0], f"{label}one token", single)
            rate = f"largest per token {float(layer.word.rates.max()):.3g}"
            disc(panels[2 * j + 1], layer.word, SERIES[1], f"{label}{layer.word.length} tokens", f"{word}\n{rate}")
        for axes in panels[2 * len(shown) :]:
            axes.set_visible(False)
        return inline_svg(figure, f"Eigenvalues of the transitions of {len(shown)} layers on the complex plane.")


def influence_figure(model: InfluenceCurve, layers: list[LayerView], *, width: float, name: str) -> str:
    """Influence against distance on a log scale: of the whole model with its spread, and of each layer alone."""
    from matplotlib.figure import Figure

    alone = [(i, layer.influence) for i, layer in enumerate(layers, 1) if layer.influence is not None]
    side = width > 5
    with styled(name):
        figure = Figure(figsize=(width, 3.1 if side else 5.6), layout="constrained")
        left, right = figure.subplots(1, 2) if side else figure.subplots(2, 1)
        x, mean = _finite(model)
        low, high = (bound.exp()[model.mean_log.isfinite()] for bound in (model.low, model.high))
        left.fill_between(x, low, high, color=SERIES[0], alpha=0.18, linewidth=0)
        left.plot(x, mean, color=SERIES[0], marker="o", markersize=2.5, linewidth=1.5)
        if math.isfinite(model.half_life) and len(x) > 2:
            fitted = [d for d in x if d >= model.fitted_from]
            counts = torch.tensor(fitted, dtype=torch.float64)
            level = float(model.mean_log[torch.tensor(fitted)].mean() + model.slope * counts.mean())
            left.plot(fitted, (level - model.slope * counts).exp(), color=INK, linewidth=1, linestyle=(0, (4, 3)))
        left.set_title("The whole model", **_TITLE)
        for i, curve in alone:
            x, mean = _finite(curve)
            right.plot(x, mean, color=SERIES[1], alpha=_depth(i, len(layers)), linewidth=1.5)
            if len(x) and len(layers) > 1:
                right.text(x[-1], float(mean[-1]), f" {i}", color=MUTED, fontsize=8.5, va="center")
        right.set_title("Each layer alone" if len(layers) > 1 else "The layer alone", **_TITLE)
        longest = len(model.mean_log) - 1
        for axes in (left, right):
            axes.set_yscale("log")
            _at_least_two_decades(axes)
            axes.set_xlim(-0.02 * longest, longest * 1.06)
            axes.set_xlabel("tokens back")
            axes.grid(axis="y")
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", which="both", length=0)
        return inline_svg(figure, f"Influence of a token on outputs up to {longest} tokens later, on a logarithmic scale.")


def smoothing_figure(found: DepthSmoothing, *, width: float, name: str) -> str:
    """Distance between tokens, relative to their length, and effective rank, by depth."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    depth = list(range(len(found.blocks)))
    side = width > 5
    with styled(name):
        figure = Figure(figsize=(width, 3.1 if side else 5.6), layout="constrained")
        left, right = figure.subplots(1, 2) if side else figure.subplots(2, 1)
        states = [(i, each) for i, each in enumerate(found.states, 1) if each is not None]
        for axes, pick, title in (
            (left, "relative", "Distance of two tokens over their length"),
            (right, "effective_rank", "Effective rank of all tokens"),
        ):
            series = {
                "after the block": (depth, [getattr(each, pick) for each in found.blocks], SERIES[0], "o", "-"),
                "of the layer": (depth[1:], [getattr(each, pick) for each in found.mixers], SERIES[1], "s", ":"),
                "of its states": ([i for i, _ in states], [getattr(each, pick) for _, each in states], SERIES[2], "D", "--"),
            }
            for label, (x, y, colour, marker, line) in series.items():
                axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.5, linestyle=line, label=label)
            axes.set_title(title, **_TITLE)
            axes.set_ylim(0, 1.08 * max(axes.get_ylim()[1], 1e-9))
            axes.set_xlim(-0.15, len(depth) - 1 + 0.15)
            axes.xaxis.set_major_locator(MaxNLocator(min(8, len(depth)), integer=True))
            axes.set_xlabel("blocks passed")
            axes.grid(axis="y")
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower left", ncols=3 if side else 1, fontsize=9, handlelength=2.2, columnspacing=1.2
        )
        last, first = found.blocks[-1].relative, found.blocks[0].relative
        label = f"Relative distance of tokens by depth, from {first:.2f} at the embedding to {last:.2f} after the last block."
        return inline_svg(figure, label)


def use_figure(layers: list[LayerView], *, width: float, name: str) -> str:
    """What share of its dimensions each layer's state uses, by three measures."""
    from matplotlib.figure import Figure

    shown = [(i, layer) for i, layer in enumerate(layers, 1) if layer.use is not None]
    with styled(name):
        figure = Figure(figsize=(width, 1.15 + 0.62 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        series: dict[str, tuple[str, str, list[tuple[float, int]]]] = {
            "participation ratio": (SERIES[0], "o", []),
            "entropy rank": (SERIES[1], "s", []),
            "effective state size": (SERIES[2], "D", []),
        }
        for row, (_, layer) in enumerate(shown):
            assert layer.use is not None
            size = layer.use.size
            axes.barh(row, 100, height=0.34, color=SHADE, linewidth=0)
            series["participation ratio"][2].append((100 * float(layer.use.participation.mean()) / size, row))
            series["entropy rank"][2].append((100 * float(layer.use.entropy_rank.mean()) / size, row))
            total = None if layer.effective is None else layer.effective.total
            if layer.effective_size is not None and total:
                series["effective state size"][2].append((100 * layer.effective_size / total, row))
        for label, (colour, marker, points) in series.items():
            if points:
                x, y = zip(*points, strict=True)
                axes.plot(x, y, color=colour, marker=marker, markersize=7.5, linestyle="none", label=label, clip_on=False)
        labels = [
            f"layer {i}" if layer.use is not None and layer.use.of == "states" else f"layer {i}, outputs" for i, layer in shown
        ]
        axes.set_yticks(range(len(shown)), labels)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlim(0, 100)
        axes.set_xticks(range(0, 101, 25), [f"{tick} %" for tick in range(0, 101, 25)])
        axes.set_xlabel("of the dimensions of a head's state")
        axes.tick_params(length=0)
        axes.grid(axis="x")
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        figure.legend(loc="outside lower left", ncols=3 if width > 5 else 1, fontsize=9, handletextpad=0.3)
        return inline_svg(figure, f"Share of the state that {len(shown)} layers use, by three measures.")


def confusion_figure(confusions: list[Confusion], *, width: float, name: str) -> str:
    """Right class against given class, a panel for each length; the darker, the more often."""
    from matplotlib.figure import Figure

    n = max(len(each.classes) for each in confusions)
    side = width > 5
    with styled(name):
        panel = width / 2 if side else width
        rows, columns = (1, 2) if side else (len(confusions), 1)
        figure = Figure(figsize=(width, rows * panel * 0.98), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, found in zip(panels, confusions, strict=False):
            _matrix(axes, found)
        for axes in panels[len(confusions) :]:
            axes.set_visible(False)
        stated = ", ".join(f"{percent(each.accuracy)} right at length {each.length:,}" for each in confusions)
        return inline_svg(figure, f"Given class by right class, {n} classes: {stated}.")


def _matrix(axes: Any, found: Confusion) -> None:
    from matplotlib.patches import Rectangle

    classes = found.classes
    n, counts, shares = len(classes), found.counts, found.shares
    for right, given in counts.nonzero().tolist():
        share = float(shares[right, given])
        colour = SERIES[0] if right == given else SERIES[1]
        axes.add_patch(Rectangle((given - 0.5, right - 0.5), 1, 1, facecolor=colour, alpha=share, linewidth=0))
        if n <= _NUMBERED:
            ink = PAPER if share > 0.55 else INK
            axes.text(given, right, f"{100 * share:.0f}", ha="center", va="center", fontsize=8.5, color=ink)
    every = max(1, -(-n // 12))
    axes.set_xticks(range(0, n, every), classes[::every])
    axes.set_yticks(range(0, n, every), classes[::every])
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xlabel("class given")
    axes.set_ylabel("class that is right")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set(visible=True, color=RULE)
    axes.set_title(f"Length {found.length:,}: {percent(found.accuracy)} right", **_TITLE)


def automaton_figure(found: Extraction, *, width: float, name: str) -> str:
    """The extracted automaton; empty where its arrows could not be told apart."""
    if found.automaton.n_states > LABELLED:
        return ""
    with styled(name):
        figure = picture(found.automaton, no_question=found.no_question, paper=PAPER, width=width)
        return inline_svg(figure, f"The extracted automaton, with {found.automaton.n_states} states.")


def _at_least_two_decades(axes: Any) -> None:
    """So that what hardly falls looks as if it hardly fell."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = (math.log10(limit) for limit in axes.get_ylim())
    room = max(0.0, 2 - (high - low)) / 2
    axes.set_ylim(10 ** (low - room), 10 ** (high + room))
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=7))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _finite(curve: InfluenceCurve) -> tuple[list[int], torch.Tensor]:
    """Distances at which there is any influence, and its size there."""
    there = curve.mean_log.isfinite()
    return there.nonzero().flatten().tolist(), curve.mean_log[there].exp()


def _depth(i: int, n: int) -> float:
    """Deeper layers are darker."""
    return 1.0 if n == 1 else 0.35 + 0.65 * (i - 1) / (n - 1)
