"""A row on two threads: what is made of the times, and the probe on a row that is too small to be cut."""

from __future__ import annotations

import json

import pytest
import torch

from statetrack.bench import threads
from statetrack.bench.scan_cases import OPS
from statetrack.bench.threads_probe import probe

SEEN = {"1": [3.0] + [2.0] * 9 + [4.0] * 10, "2": [1.0] * 20}


def measured(monkeypatch: pytest.MonkeyPatch, cores: int = 2, difference: float = 1e-7) -> threads.Report:
    monkeypatch.setattr(threads, "run_probe", lambda *a: {"forward": SEEN, "forward+backward": SEEN, "difference": difference})
    monkeypatch.setattr(threads, "machine", lambda: {"cores": cores})
    report = threads.measure_rows(OPS[:2], lambda message: None, length=30, n=4, rounds=20)
    return json.loads(json.dumps(report, allow_nan=False))  # type: ignore[no-any-return]


def test_speedups(monkeypatch: pytest.MonkeyPatch) -> None:
    report = measured(monkeypatch)
    assert [(e["op"], e["direction"]) for e in report["entries"]] == [(str(op), d) for op in OPS[:2] for d in threads.DIRECTIONS]
    assert all((e["speedup"], e["speedup_of_medians"]) == (2.0, 3.5) for e in report["entries"])
    assert [bar.get_width() for bar in threads.figure(report).axes[0].patches] == [2.0] * 4
    assert threads.tables(report)[0].row_count == 4


def test_nothing_is_claimed_on_one_core_or_of_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = measured(monkeypatch, cores=1)
    assert (alone["entries"], alone["not_run"]) == ([], ["2 threads need as many cores"])
    assert [refused["op"] for refused in measured(monkeypatch, difference=0.1)["refused"]] == [str(op) for op in OPS[:2]]


def test_the_probe() -> None:
    try:
        found = probe("flash-pd complex64 + b", length=30, n=4, rounds=2)
    finally:
        torch.set_num_threads(1)
    assert found["difference"] == 0
    assert [len(times) for times in found["forward"].values()] == [2, 2]
