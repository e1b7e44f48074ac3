"""Finding a set of the UEA and UCR archives by its name in a folder of the user's.

The folder is the argument, or the environment variable ``STATETRACK_DATA``, or ``data``. A set NAME lies in the folder itself
or in a folder in it that is called NAME or ends in _NAME, as one of

    NAME_TRAIN.ts and NAME_TEST.ts       as the archive has them
    NAME.npz or NAME_traintest.npz       see ``array_files``
    NAME_TRAIN.txt and NAME_TEST.txt     also .tsv, and compressed as .txt.xz
"""

from __future__ import annotations

import os
from pathlib import Path

from statetrack.errors import InvalidInputError, MissingDataError
from statetrack.timeseries.array_files import read_npz, read_table
from statetrack.timeseries.ts_file import Cases, read_ts

VARIABLE = "STATETRACK_DATA"
_HOME = "https://www.timeseriesclassification.com"
_TABLES = (".txt", ".tsv", ".txt.xz")


def data_folder(folder: str | Path | None = None) -> Path:
    """Where data lie."""
    return Path(folder or os.environ.get(VARIABLE) or "data")


def find_file(name: str, *, folder: str | Path | None = None, source: str) -> Path:
    """A file called ``name`` in the data folder or a folder in it.

    Raises:
        MissingDataError: it is not there; the message says where to get it (``source``) and where to put it.
    """
    home = data_folder(folder)
    for path in [home / name, *sorted(home.glob(f"*/{name}"))]:
        if path.is_file():
            return path
    raise MissingDataError(f"{name} is neither in {home} nor in a folder in it. Get it from {source}, and {_instruction()}.")


def load_set(name: str, *, folder: str | Path | None = None) -> tuple[Cases, Cases]:
    """The published training and test part of a set.

    Args:
        name: as the archive calls it, such as ``"EigenWorms"``.
        folder: see the top of this file.

    Raises:
        MissingDataError: its files are not there; the message says where to get them.
        InvalidInputError: a file is damaged.
    """
    home = data_folder(folder)
    for place in [home, home / name, *sorted(home.glob(f"*_{name}"))]:
        found = _load(place, name)
        if found is not None:
            return found
    raise MissingDataError(
        f"{name} needs {name}_TRAIN.ts and {name}_TEST.ts in {home}, {home / name} or a folder that ends in _{name}. Download "
        f"the set from {_HOME}, and {_instruction()}."
    )


def _instruction() -> str:
    return f"name the folder of your data in the environment variable {VARIABLE}"


def _load(place: Path, name: str) -> tuple[Cases, Cases] | None:
    train, test = (place / f"{name}_{part}.ts" for part in ("TRAIN", "TEST"))
    if train.exists() and test.exists():
        return read_ts(train), read_ts(test)
    for ending in (".npz", "_traintest.npz"):
        path = place / f"{name}{ending}"
        if path.exists():
            first, second = read_npz(path)
            if second is None:
                raise InvalidInputError(f"{path} does not say which cases are the test part (n_train, or X_test and y_test).")
            return first, second
    for ending in _TABLES:
        train, test = (place / f"{name}_{part}{ending}" for part in ("TRAIN", "TEST"))
        if train.exists() and test.exists():
            return read_table(train), read_table(test)
    return None
