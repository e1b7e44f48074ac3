"""``statetrack extract``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.analysis import Extraction, draw, extract
from statetrack.analysis.extraction.extract import Method
from statetrack.cli.console import note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.report.tables import percent, shortened
from statetrack.training import Run

PROG = "statetrack extract"


@dataclass(frozen=True)
class ExtractOptions:
    """The automaton that a run computes, held against the task's.

    Attributes:
        run: run folder.
        method: selections reads it off PD layers, kv and lstar learn it from answers (they need the extra "extract"), auto takes
            what fits.
        shortest: number of tokens from which on answers count; none means all that the task asks for.
        states: most states of an automaton that is learnt.
        out: picture to write: .png, .svg or .pdf.
        json: print one JSON object.
    """

    run: Annotated[Path, tyro.conf.Positional]
    method: Method = "auto"
    shortest: int | None = None
    states: int = 500
    out: Path | None = None
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(ExtractOptions, argv, PROG)
    opened = Run.open(options.run)
    found = extract(opened, method=options.method, shortest=options.shortest, max_states=options.states)
    if options.json:
        print_json(found.to_dict())
    else:
        _show(found)
    if options.out is not None:
        title = f"{opened.config.layer} on {opened.config.task}"
        draw(found.automaton, options.out, title=title, no_question=found.no_question)
        note(f"Picture: {options.out}")
    return 0


def _show(found: Extraction) -> None:
    how = {"selections": "read off the selections", "kv": "learnt by KV", "lstar": "learnt by L*"}[found.method]
    print(f"{found.automaton.n_states} states, {how}.")
    for head in found.details.get("heads", ()):
        print(f"  carried by head {head['head']} of layer {head['layer']}")
    if found.details.get("complete") is False:
        print("  learning was stopped at the largest number of states; this is not the whole automaton")
    if found.differs is None and found.target is not None:
        print(f"It is the automaton of the task ({found.target.n_states} states).")
    elif found.differs is not None and found.target is not None:
        print(f"It is not that of the task ({found.target.n_states} states): they differ after {shortened(list(found.differs))}.")
    shares = ", ".join(f"{percent(share)} at length {length:,}" for length, share in found.agreement.items())
    print(f"Answers as the network gives them: {shares}.")
    if found.monoid is not None:
        kind = "a group" if found.monoid["group"] else "aperiodic" if found.monoid["aperiodic"] else "with groups in it"
        solvable = "solvable" if found.monoid["solvable"] else "not solvable"
        print(f"Transition monoid: {found.monoid['size']:,} elements, {kind}, {solvable}.")
