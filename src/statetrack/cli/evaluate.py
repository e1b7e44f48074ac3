"""``statetrack eval``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.cli.console import console
from statetrack.cli.options import Flag, parse
from statetrack.cli.train import show
from statetrack.training import Run
from statetrack.training.measure import measure


@dataclass(frozen=True)
class EvalOptions:
    """Accuracy of a run on its test split, which no choice was made on.

    Attributes:
        run: run folder.
        lengths: word lengths; none means 40 64 128 256 1000, as far as the task can make them.
        n: words per length.
        pooled: also pool over words with uniform lengths in this range.
        json: print one JSON object in place of the table.
    """

    run: Annotated[Path, tyro.conf.Positional]
    lengths: tuple[int, ...] = ()
    n: int = 512
    pooled: tuple[int, int] | None = None
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(EvalOptions, argv, "statetrack eval")
    opened = Run.open(options.run)
    found = measure(opened, options.lengths, n=options.n, pooled=options.pooled)
    show(opened, found, as_json=options.json)
    if not options.json:
        reach = "no measured length" if found.longest_good is None else f"length {found.longest_good:,}"
        console().print(f"Above 90 % up to {reach}.")
    return 0
