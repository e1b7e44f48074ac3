"""Figures of one run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from statetrack.report.style import INK, MUTED, RULE, SERIES, SHADE, inline_svg, styled
from statetrack.report.tables import DASH, percent
from statetrack.training.measure import Measurement


def accuracy_figure(found: Measurement, trained: tuple[int, int], *, width: float, name: str) -> str:
    """Accuracy against length as an inline SVG.

    Args:
        found: accuracy by length.
        trained: shortest and longest training length, which are shaded.
        width: in inches; text stays the same size.
        name: of the figure on its page.
    """
    from matplotlib.figure import Figure

    lengths = list(found.accuracy)
    shares = [100 * share for share in found.accuracy.values()]
    with styled(name):
        figure = Figure(figsize=(width, 3.1 if width > 5 else 2.9), layout="constrained")
        axes = figure.add_subplot()
        draw_accuracy_axes(axes, lengths, trained, found.chance)
        limits = [found.interval(length) for length in lengths]
        axes.vlines(lengths, [100 * low for low, _ in limits], [100 * high for _, high in limits], color=SERIES[0], linewidth=1.2)
        axes.plot(lengths, shares, color=SERIES[0], marker="o", markersize=6)
        best, last = found.accuracy[lengths[0]], found.accuracy[lengths[-1]]
        label = (
            f"Accuracy against word length, from {percent(best)} at length {lengths[0]:,} "
            f"to {percent(last)} at length {lengths[-1]:,}; chance is {percent(found.chance)}."
        )
        return inline_svg(figure, label)


def draw_accuracy_axes(axes: Any, lengths: list[int], trained: tuple[int, int], chance: float) -> None:
    """Axes for accuracy in per cent against length on a log scale, with training lengths shaded and chance drawn."""
    low, high = max(1, trained[0]), trained[1]
    axes.set_xscale("log")
    axes.set_xlim(min(low, lengths[0]) * 0.85, max(high, lengths[-1]) * 1.25)
    axes.set_ylim(0, 104)
    axes.axvspan(low, high, color=SHADE, linewidth=0)
    words = f"trained on\n{low}{DASH}{high}" if high > low else f"trained\non {high}"
    axes.text((low * high) ** 0.5, 72, words, ha="center", va="center", color=MUTED, fontsize=9)
    axes.axhline(100 * chance, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    axes.text(low * 1.05, 100 * chance + 2, f"chance {percent(chance)}", color=MUTED, fontsize=9)
    axes.grid(axis="y")
    axes.set_yticks(range(0, 101, 25), [f"{tick} %" for tick in range(0, 101, 25)])
    ticks = [10**power for power in range(1, 7) if axes.get_xlim()[0] <= 10**power <= axes.get_xlim()[1]]
    if len(ticks) < 3:
        ticks = [length for before, length in pairwise([0, *lengths]) if length >= 1.5 * before]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks(lengths, [], minor=True)
    axes.set_xlabel("length of the test words")
    axes.tick_params(which="both", length=4)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def learning_figure(records: list[dict[str, Any]], *, width: float, name: str) -> str:
    """Loss, accuracy and training length against steps as an inline SVG."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import MaxNLocator

    steps = [record["step"] for record in records]
    validated = [(record["step"], 100 * record["validation"]) for record in records if "validation" in record]
    restarts = [b["step"] for a, b in pairwise(records) if b.get("attempt", 0) != a.get("attempt", 0)]
    with styled(name):
        figure = Figure(figsize=(width, 4.6), layout=ConstrainedLayoutEngine(hspace=0.08))
        accuracy, loss, longest = figure.subplots(3, 1, sharex=True, height_ratios=(1.5, 1, 1))
        accuracy.plot(steps, [100 * record["accuracy"] for record in records], color=SERIES[0], linewidth=1.5)
        if validated:
            accuracy.plot(*zip(*validated, strict=True), color=SERIES[1], marker="o", markersize=5, linewidth=0.8, linestyle=":")
        accuracy.set_ylim(0, 104)
        accuracy.set_yticks((0, 50, 100), ("0 %", "50 %", "100 %"))
        accuracy.set_title("Accuracy in training and in validation", **_TITLE)
        loss.plot(steps, [record["loss"] for record in records], color=SERIES[0], linewidth=1.5)
        loss.set_yscale("log")
        loss.set_title("Loss", **_TITLE)
        longest.step(steps, [record["longest"] for record in records], color=SERIES[0], where="post", linewidth=1.5)
        longest.set_ylim(bottom=0)
        longest.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        longest.set_title("Longest training word", **_TITLE)
        longest.set_xlabel("step")
        longest.xaxis.set_major_locator(MaxNLocator(5 if width > 5 else 3, integer=True))
        longest.xaxis.set_major_formatter("{x:,.0f}")
        for axes in (accuracy, loss, longest):
            axes.grid(axis="y")
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", which="both", length=0)
            for step in restarts:
                axes.axvline(step, color=RULE, linewidth=1.5)
        last = records[-1]
        ends = f"loss ends at {last['loss']:.3g}, the longest training word at {last['longest']}"
        return inline_svg(figure, f"Learning curves over {last['step']:,} steps: {ends}.")


_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}
