"""``statetrack certify``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from statetrack.analysis import Refused, certify, check
from statetrack.analysis.certificate.proof import Limits
from statetrack.cli.console import note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.cli.outcome import RunFailed
from statetrack.errors import InvalidInputError
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.report.tables import shortened
from statetrack.training import Run
from statetrack.training.files import write_json

PROG = "statetrack certify"


@dataclass(frozen=True)
class CertifyOptions:
    """Prove that a run is right on words of every length, or find one that it gets wrong.

    Attributes:
        run: run folder; with --check by default the certificate's own.
        out: file to write; by default certificate.json in the run folder.
        shortest: number of tokens from which on answers count; none means all that the task asks for.
        states: most states of the model to follow.
        check: check this certificate against the run in place of making one.
        json: print the verdict as one JSON object, without the proof.
    """

    run: Annotated[Path | None, tyro.conf.Positional] = None
    out: Path | None = None
    shortest: int | None = None
    states: int = Limits.nodes
    check: Path | None = None
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(CertifyOptions, argv, PROG)
    if options.check is not None:
        return _check(options.check, options.run or options.check.parent, as_json=options.json)
    if options.run is None:
        raise InvalidInputError(f"Name a run: {PROG} RUN. To check a certificate: {PROG} --check FILE [RUN]")
    opened = Run.open(options.run)
    stored = certify(opened, shortest=options.shortest, limits=Limits(nodes=options.states))
    path = options.out or options.run / "certificate.json"
    write_json(path, stored)
    if options.json:
        print_json(summary(stored, path))
    else:
        show(stored)
        note(f"Certificate: {path}")
    _advise(opened, stored)
    return 0


def summary(stored: dict[str, Any], path: Path) -> dict[str, Any]:
    """A certificate without its proof and what it is about."""
    kept = {key: value for key, value in stored.items() if key not in ("pieces", "config", "digest", "format", "statetrack")}
    return {"certificate": str(path), **kept}


def show(stored: dict[str, Any]) -> None:
    """Print a certificate's verdict and what it rests on."""
    print(f"{stored['verdict']}: {stored['statement']}")
    if "pieces" in stored:
        nodes = sum(len(piece["nodes"]) for piece in stored["pieces"])
        margin = "none, there is one class" if stored["margin"] is None else f"{stored['margin']:.3g}"
        print(f"Margin after all rounding: {margin}; states followed: {nodes:,}.")
    if "missing" in stored:
        print(f"Missing: {stored['missing']}.")
    if "counterexample" in stored:
        print(f"Word: {shortened(stored['counterexample']['word'])}")


def _advise(opened: Run, stored: dict[str, Any]) -> None:
    trained = opened.task.sample(1, opened.config.lengths.low, np.random.default_rng(0))
    fewest = int(trained.lengths[0])
    if stored["verdict"] == "refuted" and len(stored["counterexample"]["word"]) < fewest:
        note(f"Training words had at least {fewest} tokens; --shortest {fewest} asks about those alone.")
    if stored["verdict"] == "undecided" and all(isinstance(layer, DictionaryLayer) for layer in opened.load_model().layers):
        note(f"statetrack snap {opened.path} --out FOLDER rounds the weights to ones that can be proved right.")


def _check(path: Path, folder: Path, *, as_json: bool) -> int:
    try:
        stored = check(path, Run.open(folder))
    except Refused as error:
        raise RunFailed(str(error)) from error
    if as_json:
        print_json({"valid": True, **summary(stored, path)})
    else:
        print(f"The certificate holds. {stored['statement']}")
    return 0
