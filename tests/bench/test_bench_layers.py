"""The comparisons of layers: what is measured, refused and left out, on tiny layers."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from statetrack.bench import decode, decode_report, layer, layer_cases, layer_report, run_bench
from statetrack.bench.decode import state_bytes
from statetrack.bench.peers import PEERS
from statetrack.bench.runner import Contender, NotRun, OwnRunner, build, own
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers import make_layer

FLASH = own("flash-pd-ssm", "N = 4", d_state=4)
LSTM, ATTENTION = PEERS[:2]


def absent(width: int) -> Any:
    raise NotRun("it is not here")


class Wrong(OwnRunner):
    """Right only in double precision, and with a step that forgets."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if x.dtype == torch.float64 else 1.1 * y

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        return super().step(x_t, self.start(len(x_t)))


CONTENDERS = (
    FLASH,
    LSTM,
    Contender("absent", "elsewhere", "", absent),
    Contender("wrong", "statetrack", "", lambda width: Wrong(make_layer("flash-pd-ssm", width, d_state=4))),
)


def text_of(tables: list[Any]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    memory = {"statetrack: flash-pd-ssm": 3, "torch: LSTM": 5}
    monkeypatch.setattr(
        layer, "run_probe", lambda module, settings, what: {"before_bytes": 7, "peak_bytes": 7 + memory[settings["name"]] * 2**20}
    )
    return layer.measure_layers(CONTENDERS, lambda message: None, width=6, batch=2, length=9, budget=0.01)


def test_training_steps(training: dict[str, Any]) -> None:
    entries = {entry["name"]: entry for entry in training["entries"]}
    assert set(entries) == {"flash-pd-ssm", "LSTM"}
    assert training["first"] == "statetrack: flash-pd-ssm"
    assert entries["flash-pd-ssm"]["over_first"]["median"] == 1
    assert entries["LSTM"]["step_bytes"] == 5 * 2**20
    assert entries["LSTM"]["parameters"] == 4 * 6 * (6 + 6 + 2)
    assert sum(entries["flash-pd-ssm"]["shares"].values()) == pytest.approx(1)
    assert all(share > 0 for share in entries["flash-pd-ssm"]["shares"].values())
    assert entries["LSTM"]["shares"] is None
    assert training["not_run"] == [{"name": "elsewhere: absent", "reason": "it is not here"}]
    assert [refused["name"] for refused in training["refused"]] == ["statetrack: wrong"]
    assert training["refused"][0]["error"] > 0.05


def test_the_training_report_is_shown(training: dict[str, Any]) -> None:
    restored = json.loads(json.dumps(training, allow_nan=False))
    text = text_of(layer_report.tables(restored))
    assert "elsewhere: absent was not run: it is not here" in text
    assert "width 6, batch 2, L = 9" in text
    bars = layer_report.figure(restored).axes[1].patches
    assert sorted(bar.get_width() for bar in bars) == [3, 5]


@pytest.mark.parametrize("contender", layer_cases.OURS, ids=lambda contender: contender.name)
def test_our_contenders_are_right(contender: Contender) -> None:
    runner = build(contender, 16)
    found = layer_cases.check(runner, 16)
    assert found["ok"], found
    assert decode.steps_against_one_pass(runner.eval(), 16) < 1e-4


@pytest.mark.parametrize("contender", [LSTM, ATTENTION], ids=lambda contender: contender.name)
def test_peers_of_torch_step_as_they_run(contender: Contender) -> None:
    assert decode.steps_against_one_pass(build(contender, 64), 64) < 1e-5


def test_decoding() -> None:
    report = decode.measure_steps(
        (FLASH, LSTM, ATTENTION, *CONTENDERS[2:]), lambda message: None, width=64, batch=2, length=3 * 32
    )
    entries = {entry["name"]: entry for entry in report["entries"]}
    assert set(entries) == {"flash-pd-ssm", "LSTM", "attention"}
    assert [len(entry["windows_us"]) for entry in report["entries"]] == [3, 3, 3]
    assert entries["flash-pd-ssm"]["state_bytes"] == 2 * 4 * 8
    assert entries["LSTM"]["state_bytes"] == 2 * 2 * 64 * 4
    assert entries["attention"]["state_bytes"] == 2 * 2 * 96 * 64 * 4
    assert [entries[name]["state_grows"] for name in ("flash-pd-ssm", "LSTM", "attention")] == [False, False, True]
    assert [refused["name"] for refused in report["refused"]] == ["statetrack: wrong"]
    restored = json.loads(json.dumps(report, allow_nan=False))
    assert "and growing" in text_of(decode_report.tables(restored))
    assert list(decode_report.figure(restored).axes[0].lines[0].get_xdata()) == [32, 64, 96]


def test_bytes_of_nested_states() -> None:
    class Held:
        def __init__(self) -> None:
            self.parts, self.name = {"a": [torch.zeros(3)], "b": (torch.zeros(2, dtype=torch.complex64), None)}, "x"

    assert state_bytes([Held(), torch.zeros(1, dtype=torch.int16)]) == 12 + 16 + 2


def test_a_contender_is_built_with_the_same_weights_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second = (build(FLASH, 6).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(UnknownNameError, match="torch: LSTM"):
        layer_cases.by_name("torch: LSTN")


def test_sizes_are_checked() -> None:
    with pytest.raises(InvalidInputError, match=r"bench scan takes no sizes; got --width"):
        run_bench("scan", sizes={"width": 8})
    with pytest.raises(InvalidInputError, match="--length must be at least 1"):
        run_bench("layer", sizes={"length": 0})


def test_a_training_step_can_be_probed() -> None:
    from statetrack.bench.layer_probe import probe

    found = probe("torch: LSTM", width=64, batch=2, length=64)
    assert found["peak_bytes"] >= found["before_bytes"] > 2**20


def test_a_width_that_does_not_fit_leaves_a_layer_out() -> None:
    def refuse(width: int) -> Any:
        raise ValueError("heads of\n  64")

    with pytest.raises(NotRun, match="a width of 6 does not fit: heads of 64"):
        build(Contender("other", "elsewhere", "", refuse), 6)
    with pytest.raises(ValueError, match="heads of"):
        build(Contender("mine", "statetrack", "", refuse), 6)  # a fault of ours is not hidden
    with pytest.raises(NotRun, match="a width of 6 does not fit: d_model, d_state"):
        build(own("flash-pd-ssm", "", d_state=0), 6)


def test_a_given_length_holds_for_quick_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "measure_layers", lambda contenders, note, **sizes: sizes)
    monkeypatch.setattr(decode, "measure_steps", lambda contenders, note, **sizes: sizes)
    for module in (layer, decode):
        lengths = [module.measure(quick, print, **given)["length"] for quick in (True, False) for given in ({}, {"length": 9})]
        assert lengths == [512, 9, 4096, 9]
