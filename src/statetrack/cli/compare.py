"""``statetrack compare``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.cli.console import console, note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.errors import InvalidInputError
from statetrack.report import compare
from statetrack.training import Run


@dataclass(frozen=True)
class CompareOptions:
    """One table and one figure over runs; runs that differ in nothing but the seed form a group.

    Attributes:
        runs: run folders.
        lengths: word lengths; none means 40 64 128 256 1000, as far as the tasks can make them.
        n: test words per length.
        out: folder for comparison.svg, comparison.png and comparison.json.
        json: print one JSON object in place of the table.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    lengths: tuple[int, ...] = ()
    n: int = 512
    out: Path = Path("comparison")
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(CompareOptions, argv, "statetrack compare")
    if not options.runs:
        raise InvalidInputError("Name the run folders to compare: statetrack compare RUN RUN ...")
    comparison = compare([Run.open(path) for path in options.runs], options.lengths, n=options.n)
    files = comparison.write(options.out)
    if options.json:
        print_json(comparison.to_dict())
    else:
        console().print(comparison.table())
    note(f"Figure: {', '.join(str(file) for file in files)}")
    return 0
