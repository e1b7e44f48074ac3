"""The table of all tasks: what each asks, its labels, chance, ceiling, automaton and source.

``python -m statetrack.report.task_table FILE`` writes it for the documentation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from statetrack.tasks import Task, make_task, tasks
from statetrack.training.files import write_text

COLUMNS = ("Task", "Asks for", "Tokens", "Classes", "Labels", "Chance", "Ceiling", "States", "Source")
_LENGTH = 40


def task_rows() -> list[tuple[str, ...]]:
    """One row of texts for each registered task with its default options, in the order of ``COLUMNS``."""
    return [_row(name, make_task(name)) for name in tasks]


def task_markdown() -> str:
    """The table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{row[0]}`", *row[1:])) + " |" for row in task_rows()]
    return "\n".join(lines) + "\n"


def _row(name: str, task: Task) -> tuple[str, ...]:
    batch = task.held_out().sample(8, max(_LENGTH, task.min_length), np.random.default_rng(0))
    counts = batch.mask.sum(dim=1)
    labels = "last" if bool((counts == 1).all()) and bool(batch.mask[range(8), batch.lengths - 1].all()) else "several"
    labels = "every" if int(counts.sum()) == int(batch.lengths.sum()) else labels
    states = "" if task.automaton is None else str(task.automaton.n_states)
    ceiling = "" if task.ceiling is None else f"{task.ceiling:.3g}"
    return (
        name,
        task.summary,
        str(task.vocab_size),
        str(task.n_classes),
        labels,
        f"{task.chance:.3g}",
        ceiling,
        states,
        task.source,
    )


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), task_markdown())
