"""Several runs beside each other: groups that differ in more than the seed, with mean and spread over seeds."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group as RenderableGroup
from rich.table import Table
from rich.text import Text

from statetrack.errors import InvalidInputError, RunError
from statetrack.report.figures import draw_accuracy_axes
from statetrack.report.style import INK, SERIES, styled
from statetrack.report.tables import percent
from statetrack.training import Run
from statetrack.training.files import write_json
from statetrack.training.measure import DEFAULT_LENGTHS, measure
from statetrack.training.settings import settings

_IRRELEVANT = ("seed", "threads", "checkpoint_every")


@dataclass(frozen=True)
class Spread:
    """Accuracy of several seeds.

    Attributes:
        values: of each run.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Sample standard deviation; None of a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"mean": self.mean, "std": self.std, "min": min(self.values), "max": max(self.values), "values": list(self.values)}

    def __str__(self) -> str:
        return percent(self.mean) if self.std is None else f"{percent(self.mean)[:-2]} ± {100 * self.std:.1f}"


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed.

    Attributes:
        layer: its layer.
        task: its task.
        apart: settings in which it differs from other groups of the same layer and task.
        runs: its runs.
        spread: accuracy by length.
        chance: accuracy of guessing.
    """

    layer: str
    task: str
    apart: dict[str, Any]
    runs: tuple[Run, ...]
    spread: dict[int, Spread]
    chance: float

    @property
    def label(self) -> str:
        """The layer and what sets the group apart."""
        return ", ".join([self.layer, *(f"{name} {_short(value)}" for name, value in self.apart.items())])


@dataclass(frozen=True)
class Comparison:
    """Groups of runs.

    Attributes:
        groups: sorted by task and layer.
        lengths: test lengths.
        n: test words per length.
    """

    groups: tuple[Group, ...]
    lengths: tuple[int, ...]
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "lengths": list(self.lengths),
            "n": self.n,
            "groups": [
                {
                    "layer": group.layer,
                    "task": group.task,
                    "settings": group.apart,
                    "seeds": [run.config.seed for run in group.runs],
                    "runs": [str(run.path) for run in group.runs],
                    "chance": group.chance,
                    "accuracy": {str(length): spread.to_dict() for length, spread in group.spread.items()},
                }
                for group in self.groups
            ],
        }

    def table(self) -> RenderableGroup:
        """Mean and standard deviation in per cent, with the worst seed below."""
        title = f"Accuracy in % on {self.n} test words of each length: mean ± standard deviation over seeds, worst seed below"
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("Task")
        table.add_column("Layer")
        table.add_column("Seeds", justify="right")
        for length in self.lengths:
            table.add_column(f"{length:,}", justify="right", no_wrap=True)
        for group in self.groups:
            cells = [
                f"{spread}\n[dim]{percent(min(spread.values))[:-2]}[/dim]" if spread.std is not None else str(spread)[:-2]
                for spread in group.spread.values()
            ]
            table.add_row(group.task, group.label, str(len(group.runs)), *cells)
        return RenderableGroup(Text(title, style="bold"), "", table)

    def figure(self) -> Any:
        """Accuracy against length: a panel for each task, a line for the mean, a band from the worst to the best seed."""
        from matplotlib.figure import Figure

        tasks = list(dict.fromkeys(group.task for group in self.groups))
        labels = list(dict.fromkeys(group.label for group in self.groups))
        colours = {label: SERIES[i % len(SERIES)] for i, label in enumerate(labels)}
        columns = min(2, len(tasks))
        rows = -(-len(tasks) // columns)
        with styled("comparison"):
            figure = Figure(figsize=(5.2 * columns + 1, 3.4 * rows + 0.3 * len(labels)), layout="constrained", facecolor="white")
            panels = figure.subplots(rows, columns, squeeze=False).ravel()
            for axes, task in zip(panels, tasks, strict=False):
                self._draw(axes, [group for group in self.groups if group.task == task], colours)
                axes.set_title(task, loc="left", fontsize=11, color=INK)
            for axes in panels[len(tasks) :]:
                axes.set_visible(False)
            handles = {line.get_label(): line for axes in panels for line in axes.get_lines() if line.get_label() in colours}
            figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=2 if columns > 1 else 1)
        return figure

    def _draw(self, axes: Any, groups: Sequence[Group], colours: dict[str, str]) -> None:
        ranges = [run.config.lengths for group in groups for run in group.runs]
        trained = (min(each.low for each in ranges), max(each.high for each in ranges))
        draw_accuracy_axes(axes, list(self.lengths), trained, groups[0].chance)
        for group in groups:
            colour, spreads = colours[group.label], list(group.spread.values())
            low, high = ([100 * pick(spread.values) for spread in spreads] for pick in (min, max))
            axes.fill_between(self.lengths, low, high, color=colour, alpha=0.18, linewidth=0)
            mean = [100 * spread.mean for spread in spreads]
            axes.plot(self.lengths, mean, color=colour, marker="o", markersize=4, label=group.label)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the figure as SVG and PNG and the numbers as JSON. Raises ``RunError`` when the disk refuses."""
        folder, figure = Path(folder), self.figure()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = [folder / "comparison.svg", folder / "comparison.png"]
            with styled("comparison"):
                figure.savefig(files[0], metadata={"Date": None})
                figure.savefig(files[1], dpi=200)
        except OSError as error:
            raise RunError(f"Cannot write {folder}: {error.strerror}.") from error
        write_json(folder / "comparison.json", self.to_dict())
        return files


def compare(runs: Sequence[Run | str | Path], lengths: Sequence[int] = (), *, n: int = 512) -> Comparison:
    """Test runs at the same lengths and group them by everything but the seed.

    Args:
        runs: runs or their folders.
        lengths: test lengths; none means the usual ones that all tasks can make.
        n: test words per length.

    Raises:
        InvalidInputError: no runs, one run twice (a copy counts as the same), or a length that a task cannot make.
        RunError: a folder that holds no run.
    """
    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    if not opened:
        raise InvalidInputError("There is nothing to compare: no runs were given.")
    if len({run.path.resolve() for run in opened}) < len(opened):
        raise InvalidInputError("A run was given twice; each counts once.")
    shortest = max(run.task.min_length for run in opened)
    asked = tuple(sorted(set(lengths))) or tuple(length for length in DEFAULT_LENGTHS if length >= shortest)
    tables = [{k: v for k, v in settings(run.config).items() if k not in _IRRELEVANT} for run in opened]
    members: dict[str, list[int]] = {}
    for index, table in enumerate(tables):
        members.setdefault(repr(sorted(table.items())), []).append(index)
    for indices in members.values():
        _refuse_repetitions([opened[index] for index in indices])
    groups = []
    for indices in members.values():
        table, first = tables[indices[0]], opened[indices[0]]
        rivals = [other for other in tables if (other["layer"], other["task"]) == (table["layer"], table["task"])]
        apart = {name: value for name, value in table.items() if any(other.get(name) != value for other in rivals)}
        found = [measure(opened[index], asked, n=n, reuse=True) for index in indices]
        spread = {length: Spread(tuple(each.accuracy[length] for each in found)) for length in asked}
        groups.append(Group(table["layer"], table["task"], apart, tuple(opened[i] for i in indices), spread, first.task.chance))
    groups.sort(key=lambda group: (group.task, group.label))
    return Comparison(tuple(groups), asked, n)


def _short(value: Any, most: int = 40) -> str:
    """A setting in words, or the beginning of a long one (an automaton) and a digest, which tells it from others."""
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 10]}... {hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _refuse_repetitions(runs: Sequence[Run]) -> None:
    """Spread over seeds needs different ones: a copy would pass for a second seed."""
    seen: dict[int, Run] = {}
    for run in runs:
        other = seen.setdefault(run.config.seed, run)
        if other is not run:
            raise InvalidInputError(
                f"{other.path} and {run.path} have the same settings and seed {run.config.seed}, so one is a copy or a "
                "repetition of the other; leave one out."
            )
