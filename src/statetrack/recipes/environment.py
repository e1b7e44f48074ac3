"""What recipes read that the library does not bring along, and the environment variables that say where it lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from statetrack.errors import InvalidInputError
from statetrack.timeseries.archive import VARIABLE


@dataclass(frozen=True)
class Variable:
    """An environment variable.

    Attributes:
        name: of the variable.
        holds: what it names.
        example: a value.
        needed: whether nothing can be done without it.
        file: whether it must name a file, and no folder.
    """

    name: str
    holds: str
    example: str
    needed: bool = True
    file: bool = False

    def path(self, recipe: str) -> Path:
        """What it names.

        Raises:
            InvalidInputError: it is not set, or names nothing; says what to set it to.
        """
        given = os.environ.get(self.name)
        path = Path(given or "").expanduser()
        if given and (path.is_file() if self.file else path.exists()):
            return path
        wrong = "is no file" if self.file else "does not exist"
        what = f"{self.name} is {given!r}, which {wrong}" if given else f"{self.name} is not set"
        raise InvalidInputError(
            f"{what}; the recipe {recipe!r} reads from it {self.holds}. For example: export {self.name}={self.example}"
        )


TEXT = Variable(
    "STATETRACK_TEXT",
    "the path of a text file, one document after another with three line breaks between them",
    "~/text/book.txt",
    file=True,
)
BACKBONE = Variable(
    "STATETRACK_BACKBONE",
    "the path of a pre-trained model: the folder that holds stories260K.bin and tok512.bin (preset stories), or the GGUF file of "
    "SmolLM2-135M (preset smollm2)",
    "~/models/stories260K",
)
DATA = Variable(
    VARIABLE,
    "the folder of data sets ('data' where it is not set); sets that are not there are skipped, saying where to get them",
    "~/archives",
    needed=False,
)

READS = {"lm-small": TEXT, "words": BACKBONE, **dict.fromkeys(("beats", "digits", "ecg", "lra", "uea"), DATA)}
"""The variable of each recipe that reads one."""
