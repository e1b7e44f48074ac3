"""``statetrack bench``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from statetrack.bench import run_bench
from statetrack.cli.options import Flag, parse


@dataclass(frozen=True)
class BenchOptions:
    """Measure kernels side by side with the limit of the machine.

    Attributes:
        name: what to measure, such as scan.
        quick: smaller sizes, a few seconds.
        json: print one JSON object in place of the table.
        save: also write the JSON to this file.
        out: folder for the JSON and the figure.
        width: of the layers, for layer and decode.
        batch: rows, for layer and decode.
        length: tokens per row, for layer, decode and threads.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    quick: Flag = False
    json: Flag = False
    save: Path | None = None
    out: Path | None = None
    width: int | None = None
    batch: int | None = None
    length: int | None = None


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(BenchOptions, argv, "statetrack bench")
    given = {name: getattr(options, name) for name in ("width", "batch", "length")}
    sizes = {name: size for name, size in given.items() if size is not None}
    rest: dict[str, Any] = {"sizes": sizes} if sizes else {}
    code: int = run_bench(
        options.name, quick=options.quick, json_path=options.save, out=options.out, as_json=options.json, **rest
    )
    return code
