"""``statetrack recipe``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markdown import Markdown

from statetrack.cli.console import console, note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.recipes import recipes
from statetrack.recipes.environment import READS


@dataclass(frozen=True)
class RecipeOptions:
    """Do the runs of a published table that are not done yet, and print it with our numbers beside the published ones.

    Attributes:
        name: of the recipe, see statetrack list recipes.
        preset: which settings, see statetrack recipe NAME --help; none means the first.
        out: folder for runs and results; by default runs/NAME-PRESET.
        only: patterns of the names of runs, as in "*-parity-*"; the others are left for later.
        workers: number of processes.
        json: print one JSON object in place of the table.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    preset: str | None = None
    out: Path | None = None
    only: tuple[str, ...] = ("*",)
    workers: int = 1
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(RecipeOptions, argv, "statetrack recipe", description=_description(argv))
    recipe = recipes.get(options.name)(preset=options.preset)
    if (variable := READS.get(options.name)) is not None and variable.needed:
        variable.path(options.name)
    out = options.out or Path("runs") / f"{options.name}-{recipe.preset}"
    result = recipe.run(out=out, workers=options.workers, observer=note, only=options.only)
    if options.json:
        print_json(result)
        return 0
    table = recipe.table(result)
    console().print(Markdown(table) if console().is_terminal else table)
    return 0


def _description(argv: list[str]) -> str | None:
    """What help says of the recipe that comes first, if help is asked for and one does."""
    if not {"-h", "--help"} & set(argv) or argv[0].startswith("-"):
        return None
    recipe = recipes.get(argv[0])
    lines = [f"{recipe.summary}.", "", f"Presets: {', '.join(recipe.presets)}."]
    if (variable := READS.get(argv[0])) is not None:
        need = "Needs" if variable.needed else "Reads"
        lines += ["", f"{need} the environment variable {variable.name}: {variable.holds}."]
    return "\n".join(lines)
