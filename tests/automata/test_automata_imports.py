"""The folder stands on NumPy and the standard library alone; other packages are imported where they are used."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import statetrack.automata

FILES = sorted(Path(statetrack.automata.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_imports_at_the_top_of_a_file(file: Path) -> None:
    imported = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported.append(str(node.module))
    for name in imported:
        ours = name.startswith("statetrack.automata") or name == "statetrack.errors"
        assert ours or name.partition(".")[0] in {"numpy", *sys.stdlib_module_names}, name


def test_public_names_exist() -> None:
    assert statetrack.automata.__all__ == sorted(statetrack.automata.__all__)
    for name in statetrack.automata.__all__:
        assert hasattr(statetrack.automata, name)
