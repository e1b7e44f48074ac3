"""``statetrack inspect``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.analysis.inspection import inspect_run
from statetrack.cli.console import print_json
from statetrack.cli.options import Flag, parse
from statetrack.report.inspection import write_inspection
from statetrack.training import Run


@dataclass(frozen=True)
class InspectOptions:
    """Look inside a run: one self-contained HTML page with its spectra, memory, smoothing, state use, mistakes and automaton.

    Attributes:
        run: run folder.
        out: file to write; by default inspect.html in the run folder.
        words: words that its layers are looked at on.
        length: their length; none means the longest of training, but at most 64.
        lengths: lengths of the test words; none means those tested so far, or else 40 64 128 256 1000.
        n: test words per length.
        states: most states of an automaton that is learnt.
        json: also print what was measured as one JSON object, in place of the file's name.
    """

    run: Annotated[Path, tyro.conf.Positional]
    out: Path | None = None
    words: int = 4
    length: int | None = None
    lengths: tuple[int, ...] = ()
    n: int = 512
    states: int = 64
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(InspectOptions, argv, "statetrack inspect")
    opened = Run.open(options.run)
    found = inspect_run(
        opened, words=options.words, length=options.length, lengths=options.lengths, n=options.n, max_states=options.states
    )
    path = write_inspection(opened, found, options.out)
    if options.json:
        print_json({"page": str(path), **found.to_dict()})
    else:
        print(path)
    return 0
