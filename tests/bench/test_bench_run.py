"""What ``run_bench`` prints, writes and refuses, with a benchmark that measures nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rich.text import Text

from statetrack.bench import Benchmark, benchmarks, run_bench
from statetrack.bench.machine import available_bytes, machine, peak_bytes
from statetrack.errors import MissingExtraError, RunError, UnknownNameError


def figure(report: dict[str, object]) -> object:
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What the benchmark called ``"nothing"`` refuses to report."""
    found: list[dict[str, object]] = []

    def measure(quick: bool, note) -> dict[str, object]:  # type: ignore[no-untyped-def]
        note("measuring nothing")
        return {"entries": [{"quick": quick, "seconds": [2 / 3]}], "refused": found}

    benchmarks.names()
    nothing = Benchmark(measure, lambda report: [Text(f"{len(report['entries'])} entry")], figure)
    monkeypatch.setitem(benchmarks._entries, "nothing", nothing)
    return found


def test_names() -> None:
    assert {"scan", "memory"} <= set(benchmarks.names())
    with pytest.raises(UnknownNameError, match=r"Unknown benchmark 'scam'\. Did you mean 'scan'"):
        run_bench("scam")


def test_json_goes_to_standard_output_alone(refused: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("nothing", quick=True, as_json=True) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["entries"] == [{"quick": True, "seconds": [0.66667]}]
    assert (report["benchmark"], report["quick"]) == ("nothing", True)
    assert report["machine"] == machine() | {"load": report["machine"]["load"]}
    assert err == "measuring nothing\n"


def test_files(refused: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("nothing", json_path=tmp_path / "mine.json", out=tmp_path / "results") == 0
    assert "1 entry" in capsys.readouterr().out
    written = json.loads((tmp_path / "results" / "bench_nothing_cpu.json").read_text())
    assert written == json.loads((tmp_path / "mine.json").read_text())
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == ["bench_nothing_cpu.json", "bench_nothing_cpu.png", "bench_nothing_cpu.svg"]
    assert (tmp_path / "results" / "bench_nothing_cpu.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "results" / "bench_nothing_cpu.svg").read_text()


def test_refusal_is_told_and_fails(refused: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> None:
    refused.append({"op": "pd", "error": float("nan")})
    assert run_bench("nothing", as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["refused"] == [{"op": "pd", "error": "nan"}]
    assert "check against the reference failed: {'op': 'pd', 'error': 'nan'}" in err


def test_folder_that_cannot_be_written(refused: list[dict[str, object]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="Cannot write"):
        run_bench("nothing", out=tmp_path / "file")


def test_machine() -> None:
    found = machine()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cpu"]
    assert available_bytes() > 2**20
    before = peak_bytes()
    assert before > 50 * 2**20
    block = torch.ones(2**24)
    assert peak_bytes() >= before
    assert block.numel() == 2**24


def test_what_cannot_be_written_is_told_before_anything_is_measured(
    refused: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for wrong, message in (({"out": file / "x"}, "Cannot write .*Not a directory"), ({"json_path": tmp_path}, "it is a folder")):
        with pytest.raises(RunError, match=message):
            run_bench("nothing", **wrong)  # type: ignore[arg-type]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        run_bench("nothing", out=tmp_path)
    with pytest.raises(MissingExtraError, match="rich"):
        run_bench("nothing")
    assert capsys.readouterr() == ("", "")
