"""``statetrack demo``."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from statetrack.cli.console import console, note
from statetrack.cli.options import parse
from statetrack.cli.train import free_folder, show, train_shown
from statetrack.errors import RunError
from statetrack.recipes.defaults import default_config
from statetrack.report import verdict, write_report
from statetrack.training import Run, train
from statetrack.training.measure import measure

LAYER, TASK = "flash-pd-ssm", "cycle-navigation"
LENGTHS = (40, 64, 128, 256, 1000, 10_000)


@dataclass(frozen=True)
class DemoOptions:
    """Train Flash PD-SSM on cycle navigation with words of length 3 to 40, labelled at the last token only, and test it on far
    longer ones.

    Attributes:
        out: run folder; by default runs/demo, where what an earlier demo left is replaced.
        seed: of initialisation and data.
        n: test words per length.
    """

    out: Path | None = None
    seed: int = 0
    n: int = 512


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(DemoOptions, argv, "statetrack demo")
    config = default_config(LAYER, TASK, seed=options.seed)
    out = options.out or demo_folder()
    note(
        "A walker on a ring of 5 places stays, steps forward or steps back. Where does the walk end?\n"
        f"{LAYER} learns it from walks of {config.lengths.low} to {config.lengths.high} steps, told only where each ends.\n"
    )
    began = time.monotonic()
    finished = train_shown(lambda observer: train(config, out, observer=observer), config, out)
    note(f"Trained in {time.monotonic() - began:.0f} s. Testing new walks of up to {LENGTHS[-1]:,} steps ...\n")
    found = measure(finished, LENGTHS, n=options.n)
    show(finished, found, as_json=False)
    page = write_report(finished, lengths=LENGTHS, n=options.n)
    console().print(f"\n{verdict(found, finished.config)}\nReport: {page}", soft_wrap=True)
    return 0


def demo_folder(home: Path = Path("runs/demo")) -> Path:
    """Where a demo goes that was not told where: an earlier demo there is removed, anything else is left alone."""
    try:
        config = Run.open(home).config
    except RunError:
        return free_folder(home)
    if (config.layer, config.task) != (LAYER, TASK):
        return free_folder(home)
    note(f"Replacing the earlier demo in {home}.")
    shutil.rmtree(home)
    return home
