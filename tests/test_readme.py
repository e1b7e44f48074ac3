"""Every command and snippet of the README runs as printed, one after another in one folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from statetrack.layers import layers
from statetrack.tasks import tasks

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf8"), flags=re.DOTALL)


def lines(kind):
    return [line for language, text in BLOCKS if language == kind for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("line", [line for line in lines("bash") if line.startswith("make")])
def test_make_target_exists(line):
    target = shlex.split(line, comments=True)
    assert run([*target, "--dry-run"], ROOT)


@pytest.mark.timeout(900)
def test_commands_run_in_order(folder):
    commands = [shlex.split(line, comments=True) for line in lines("bash") if line.startswith("statetrack")]
    assert ["statetrack", "train", "flash-pd-ssm", "cycle-navigation", "--seed", "3", "--out", "runs/x"] in commands
    outputs = {" ".join(c): run([sys.executable, "-m", *c], folder) for c in commands}
    import json

    accuracy = json.loads(outputs["statetrack eval runs/x --lengths 64 256 1000 --json"])["accuracy"]
    assert accuracy == {"64": 1.0, "256": 1.0, "1000": 1.0}, "the README prints these numbers"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("snippet", [text for language, text in BLOCKS if language == "python"])
def test_snippet_runs(snippet, folder):
    assert run([sys.executable, "-c", snippet], folder)


def test_lines_that_are_neither_are_not_commands():
    assert all(line.split()[0] in {"make", "statetrack"} for line in lines("bash"))


def test_numbers_of_the_readme_are_those_of_the_recipe():
    text = (ROOT / "README.md").read_text(encoding="utf8")
    table = text[text.index("## How far it goes") :].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert set(rows) <= set((ROOT / "results" / "fsa_cpu.md").read_text(encoding="utf8").splitlines())


@pytest.mark.parametrize(("kind", "registry"), [("Layers", layers), ("Tasks", tasks)])
def test_counts_are_those_of_the_registries(kind, registry):
    told = re.search(rf"\*\*{kind}\*\* \| (\d+) of them", (ROOT / "README.md").read_text(encoding="utf8"))
    assert told is not None and int(told.group(1)) == len(list(registry))
