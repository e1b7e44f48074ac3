"""``statetrack snap``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from statetrack.analysis import NotSnapped, snap
from statetrack.cli.certify import show, summary
from statetrack.cli.console import note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.cli.outcome import RunFailed
from statetrack.errors import InvalidInputError
from statetrack.training import Run

PROG = "statetrack snap"


@dataclass(frozen=True)
class SnapOptions:
    """Round a run of PD layers to exact weights, so that nothing decays, and prove the result right on every word.

    Attributes:
        run: run folder.
        out: folder of the new run, which also holds certificate.json.
        shortest: number of tokens from which on answers count; none means all that the task asks for.
        json: print one JSON object.
    """

    run: Annotated[Path, tyro.conf.Positional]
    out: Path | None = None
    shortest: int | None = None
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(SnapOptions, argv, PROG)
    if options.out is None:
        raise InvalidInputError(f"Name the folder of the new run: {PROG} {options.run} --out FOLDER")
    try:
        snapped = snap(Run.open(options.run), options.out, shortest=options.shortest)
    except NotSnapped as error:
        raise RunFailed(str(error)) from error
    path = options.out / "certificate.json"
    if options.json:
        heads = [{"layer": layer + 1, "head": head} for layer, head in snapped.heads]
        print_json({"run": str(options.out), "way": snapped.way, "heads": heads, **summary(snapped.certificate, path)})
        return 0
    if snapped.way == "places":
        named = ", ".join(f"head {head} of layer {layer + 1}" for layer, head in snapped.heads)
        print(f"The selections of {named} carry the automaton; the other heads are frozen.")
    else:
        print("The automaton was learnt from the answers and written into the selections of one head.")
    show(snapped.certificate)
    note(f"Run folder: {options.out}   (statetrack eval {shlex.quote(str(options.out))} tests it)")
    return 0
