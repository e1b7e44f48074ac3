"""The page about benchmarks says what the files say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from statetrack.bench.page import filled, tables

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "benchmarks.md", ROOT / "results"


def test_the_page_is_made_of_the_results() -> None:
    text = PAGE.read_text(encoding="utf8")
    assert text == filled(text, RESULTS), "run: python -m statetrack.bench.page docs/benchmarks.md results"


def test_tables_follow_the_files(tmp_path: Path) -> None:
    for path in RESULTS.glob("bench_*_cpu.json"):
        shutil.copy(path, tmp_path)
    path = tmp_path / "bench_layer_cpu.json"
    path.write_text(path.read_text(encoding="utf8").replace('"name": "LSTM"', '"name": "LSTM"'), encoding="utf8")
    assert tables(tmp_path) == tables(RESULTS)
    report = path.read_text(encoding="utf8")
    path.write_text(report.replace('"library": "mambapy"', '"library": "elsewhere"'), encoding="utf8")
    changed = tables(tmp_path)
    assert "elsewhere: Mamba" in changed["layer"] and "elsewhere" not in tables(RESULTS)["layer"]


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="unpack"):
        filled("# Nothing\n", RESULTS)
