"""``statetrack report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.cli.options import parse
from statetrack.report import write_report
from statetrack.training import Run


@dataclass(frozen=True)
class ReportOptions:
    """Write one self-contained HTML page about a run.

    Attributes:
        run: run folder.
        out: file to write; by default report.html in the run folder.
        lengths: word lengths; none means those tested so far, or else 40 64 128 256 1000.
        n: test words per length.
    """

    run: Annotated[Path, tyro.conf.Positional]
    out: Path | None = None
    lengths: tuple[int, ...] = ()
    n: int = 512


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(ReportOptions, argv, "statetrack report")
    print(write_report(Run.open(options.run), options.out, lengths=options.lengths, n=options.n))
    return 0
