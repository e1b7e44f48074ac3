"""The stored tables are what the stored results say."""

import json
from pathlib import Path

import pytest

from statetrack.recipes import recipes

RESULTS = Path(__file__).parents[2] / "results"
STORED = [
    path
    for path in sorted(RESULTS.glob("*.json"))
    if (name := path.stem.rpartition("_"))[0] in recipes.names() and name[2] in recipes.get(name[0]).presets
]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_table_is_that_of_the_runs(path):
    result = json.loads(path.read_text(encoding="utf8"))
    recipe = recipes.get(result["recipe"])(result["preset"])
    assert path.with_suffix(".md").read_text(encoding="utf8") == recipe.table(result) + "\n"


def test_there_are_results():
    assert {"fsa_cpu", "group-words_cpu", "learnability_cpu"} <= {path.stem for path in STORED}
