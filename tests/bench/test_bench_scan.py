"""The scan benchmark on tiny sizes: what it counts, what it refuses, what it reports."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch

from statetrack.bench import scan as bench
from statetrack.bench.scan_cases import OPS, Op, Problem, Shape, Traffic
from statetrack.bench.scan_check import against_reference, at_full_length
from statetrack.bench.scan_report import figure, tables
from statetrack.structures import RoutedOneHot

TINY = bench.Grid((4, 8), ((1, 12), (2, 6)), (6, 12), 8, budget=0.0, tree_states=64, dense_bytes=400)
SMALL_OPS = (Op("pd", torch.float32, False), Op("flash-pd", torch.complex64, True), Op("diagonal", torch.float32, True))


def quiet(message: str) -> None:
    """Takes the notes of a measurement."""


@pytest.fixture(scope="module")
def report() -> bench.Report:
    return bench.measure_grid(TINY, SMALL_OPS, quiet)


def by_hand(problem: Problem) -> torch.Tensor:
    """The recurrence, entry by entry."""
    maps = problem.transitions.expand() if isinstance(problem.transitions, RoutedOneHot) else problem.transitions
    x, states = problem.initial[:, 0].tolist(), []
    value = maps.values[:, :, 0].tolist()
    for row, h in enumerate(x):
        for t in range(len(value[row])):
            new = [0.0] * len(h) if problem.inputs is None else problem.inputs[row, t, 0].tolist()
            for q, entry in enumerate(h):
                target = q if problem.op.family == "diagonal" else int(maps.index[row, t, 0, q])
                new[target] += value[row][t][q] * entry
            h = new
            states.append(h)
    return torch.tensor(states, dtype=problem.op.dtype).view_as(problem.transitions.values)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_contenders_compute_the_same_recurrence(op: Op) -> None:
    problem = Problem.make(op, Shape(2, 5, 3)).double()
    expected = by_hand(problem)
    runs = {name: problem.run(name) for name in ("cpu", "tree", "reference")} | {"dense": problem.dense().run("reference")}
    for name, states in runs.items():
        torch.testing.assert_close(states, expected, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("op", SMALL_OPS, ids=str)
def test_dense_contender_has_the_gradients_of_the_kernel(op: Op) -> None:
    problem = Problem.make(op, Shape(2, 5, 3)).double()
    _, ours = problem.gradients("cpu")
    _, dense = problem.dense().gradients("reference")
    torch.testing.assert_close(dense["initial"], ours["initial"])
    maps = problem.structure().to_dense() != 0
    chosen = dense["value"].where(maps, torch.zeros(()))
    torch.testing.assert_close(chosen.sum(-2), ours["value"])


def test_traffic_counts_every_byte_once() -> None:
    shape = Shape(3, 5, 7)
    states = 3 * 5 * 7
    real, full = Op("diagonal", torch.float32, False), Op("diagonal", torch.complex64, True)
    assert (Traffic.forward(real, shape), Traffic.both(real, shape)) == (
        Traffic(4 * states, 4 * states),
        Traffic(16 * states, 8 * states),
    )
    assert (Traffic.forward(full, shape), Traffic.both(full, shape)) == (
        Traffic(16 * states, 8 * states),
        Traffic(40 * states, 24 * states),
    )
    assert Traffic.forward(Op("pd", torch.float32, True), shape).read == 2 * 4 * states + 2 * states  # int16 maps
    assert Traffic.both(Op("flash-pd", torch.float32, False), shape).read == 4 * 4 * states + 2 * 8 * 15  # int64 routes
    assert Traffic.forward(full, shape).moved == 24 * states


@pytest.mark.parametrize("op", OPS, ids=str)
def test_right_kernels_pass_the_checks(op: Op) -> None:
    assert against_reference(op, 5)["ok"]
    law = at_full_length(Problem.make(op, Shape(2, 301, 5)))
    assert law["ok"], law


def spoiled(amount: float, where: str):  # type: ignore[no-untyped-def]
    """``Problem.gradients`` of a kernel that gets one number wrong."""
    right = Problem.gradients

    def gradients(self: Problem, backend: str, **options: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        states, found = right(self, backend, **options)  # type: ignore[arg-type]
        if backend == "cpu":
            target = states if where == "states" else found[where]
            target[..., -1, 0, 1] += amount * target.abs().max()
        return states, found

    return gradients


@pytest.mark.parametrize("where", ["states", "value", "initial", "inputs"])
def test_a_wrong_number_fails_the_check_against_the_reference(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(Problem, "gradients", spoiled(1e-5, where))
    assert not against_reference(OPS[1], 5)["ok"]


@pytest.mark.parametrize("where", ["states", "inputs", "initial"])
def test_a_wrong_number_fails_the_laws_at_full_length(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(Problem, "gradients", spoiled(3.0, where))
    assert not at_full_length(Problem.make(OPS[1], Shape(2, 301, 5)))["ok"]


def test_a_failing_operation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(op: Op, n: int) -> dict[str, object]:
        return {"ok": op.family != "pd", "error": {"states": 1.0}, "budget": {"states": 1e-6}}

    monkeypatch.setattr(bench, "against_reference", failing)
    found = bench.measure_grid(replace(TINY, sizes=(4,), lengths=()), SMALL_OPS, quiet)
    assert {failed["op"] for failed in found["refused"]} == {"pd float32"}
    assert {entry["family"] for entry in found["entries"]} == {"flash-pd", "diagonal"}


def test_report_has_every_operation_shape_and_direction(report: bench.Report) -> None:
    assert report["refused"] == []
    shapes = {(1, 12, 4), (1, 12, 8), (2, 6, 4), (2, 6, 8), (1, 6, 8)}
    expected = {(str(op), *shape, way) for op in SMALL_OPS for shape in shapes for way in ("forward", "forward+backward")}
    assert {(e["op"], e["B"], e["L"], e["N"], e["direction"]) for e in report["entries"]} == expected


def test_report_numbers_follow_from_the_times(report: bench.Report) -> None:
    for entry in report["entries"]:
        seconds = entry["seconds"]["cpu"]["median"]
        assert entry["gb_per_s"] == pytest.approx(entry["bytes"] / seconds / 1e9)
        assert entry["ns_per_state"] == pytest.approx(1e9 * seconds / (entry["B"] * entry["L"] * entry["N"]))
        assert entry["us_per_token"] == pytest.approx(1e6 * seconds / (entry["B"] * entry["L"]))
        assert entry["over_copy"]["low"] <= entry["over_copy"]["median"] <= entry["over_copy"]["high"]


def test_what_is_too_large_is_named_and_not_run(report: bench.Report) -> None:
    tree = {(e["B"] * e["L"] * e["N"]): "tree" in e["seconds"] for e in report["entries"]}
    assert tree == {48: True, 96: False}
    dense = {e["op"]: "dense" in e["seconds"] for e in report["entries"] if e["N"] == 4}
    assert dense == {"pd float32": False, "flash-pd complex64 + b": False, "diagonal float32 + b": False}
    assert all(("tree" in e["seconds"]) != ("tree" in e["not_run"]) for e in report["entries"])
    limited = bench.measure_grid(replace(TINY, lengths=(), tensor_bytes=200), SMALL_OPS[:1], quiet)
    assert {(e["B"], e["L"], e["N"]) for e in limited["skipped"]} == {(1, 12, 8), (2, 6, 8)}


def test_flatness_is_the_spread_of_the_cost_per_token(report: bench.Report) -> None:
    assert len(report["flatness"]) == 2 * len(SMALL_OPS)
    for series in report["flatness"]:
        costs = {
            str(e["L"]): e["us_per_token"]
            for e in report["entries"]
            if (e["op"], e["direction"], e["B"], e["N"]) == (series["op"], series["direction"], 1, 8)
        }
        assert series["us_per_token"] == costs
        assert series["largest_over_smallest"] == pytest.approx(max(costs.values()) / min(costs.values()))


def test_report_survives_json_and_is_drawn(report: bench.Report) -> None:
    from rich.console import Console

    restored = json.loads(json.dumps(report, allow_nan=False))
    assert restored == report
    console = Console(width=200, record=True, file=io.StringIO())
    for table in tables(restored):
        console.print(table)
    text = console.export_text()
    cell = next(e for e in report["entries"] if (e["op"], e["N"], e["B"], e["L"]) == ("pd float32", 4, 1, 12))
    assert f"{cell['over_copy']['median']:.2f} / " in text
    lines = [line for axes in figure(restored).axes for line in axes.lines if line.get_label().startswith("pd")]
    assert list(lines[0].get_xdata()) == [4, 8]
