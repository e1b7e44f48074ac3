"""The snippets of the page on time series run one after another, and its tables are those that recipes wrote."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from statetrack.recipes import recipes

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "time-series.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.timeout(200)
def test_snippets_run(tmp_path):
    pytest.importorskip("sklearn")
    program = "\n".join(text for language, text in BLOCKS if language == "python")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr[-2000:]
    score, loaded, *_ = done.stdout.splitlines()
    assert float(score) > 0.9 and loaded == "['calm' 'wave' 'calm' 'wave']"


def test_commands_name_recipes_and_presets():
    lines = [shlex.split(line, comments=True) for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
    for _, _, name, *rest in (line for line in lines if line[:2] == ["statetrack", "recipe"]):
        preset = rest[rest.index("--preset") + 1] if "--preset" in rest else None
        recipes.get(name)(preset)


def test_included_files_exist():
    for path in re.findall(r"```{include} (\S+)", TEXT) + re.findall(r"!\[[^]]*\]\((\S+)\)", TEXT):
        assert (ROOT / "docs" / path).exists(), path


def test_slopes_are_those_that_were_measured():
    report = json.loads((ROOT / "results" / "bench_series_cpu.json").read_text(encoding="utf8"))
    assert len(report["fits"]) == 6
    for fit in report["fits"]:
        assert f"{fit['us_per_step']:.0f} µs, {fit['bytes_per_step']:,.0f} bytes per step" in TEXT
