"""Several runs: groups, mean and spread."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from statetrack.errors import InvalidInputError, RunError
from statetrack.models import ModelConfig
from statetrack.report import compare
from statetrack.report.comparison import Spread
from statetrack.training import EvalConfig, OptimConfig, Run, TrainConfig, train

SMALL = TrainConfig(
    "rnn",
    "parity",
    model=ModelConfig(d_model=8, layer={"d_state": 4}),
    evaluation=EvalConfig(every=10, low=8, high=10, n=8),
    steps=5,
    batch_size=8,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Run]:
    home = tmp_path_factory.mktemp("runs")
    configs = {
        "a0": SMALL,
        "a1": replace(SMALL, seed=1, task_options={"format": "slice"}),  # the default, spelt out
        "a2": replace(SMALL, seed=2, checkpoint_every=3),  # changes no result
        "fast": replace(SMALL, optim=OptimConfig(lr=0.1)),
        "other": replace(SMALL, task="even-pairs"),
    }
    return {name: train(config, home / name) for name, config in configs.items()}


def test_groups_differ_in_more_than_the_seed(runs):
    found = compare([run.path for run in runs.values()], [8, 12], n=32)
    groups = {(group.task, group.label): [run.path.name for run in group.runs] for group in found.groups}
    assert groups == {
        ("even-pairs", "rnn"): ["other"],
        ("parity", "rnn, optim.lr 0.002"): ["a0", "a1", "a2"],
        ("parity", "rnn, optim.lr 0.1"): ["fast"],
    }


def test_mean_and_spread_are_those_of_numpy(runs):
    chosen = [runs[name] for name in ("a0", "a1", "a2")]
    (group,) = compare(chosen, [8, 12], n=32).groups
    for length in (8, 12):
        values = np.array([run.evaluate([length], n=32)["accuracy"][length] for run in chosen])
        spread = group.spread[length].to_dict()
        assert spread["values"] == values.tolist()
        assert spread["mean"] == pytest.approx(values.mean())
        assert spread["std"] == pytest.approx(values.std(ddof=1))
        assert (spread["min"], spread["max"]) == (values.min(), values.max())
    assert str(Spread((0.5, 0.7))) == f"60.0 ± {100 * np.std([0.5, 0.7], ddof=1):.1f}"
    assert Spread((0.5,)).std is None
    assert str(Spread((0.5,))) == "50.0 %"


def test_files_and_table_hold_the_numbers(runs, tmp_path):
    found = compare(list(runs.values()), [8, 12], n=32)
    assert [path.name for path in found.write(tmp_path / "c")] == ["comparison.svg", "comparison.png"]
    assert json.loads((tmp_path / "c" / "comparison.json").read_text()) == json.loads(json.dumps(found.to_dict()))
    svg = (tmp_path / "c" / "comparison.svg").read_text()
    assert all(word in svg for word in ("even-pairs", "parity", "rnn, optim.lr 0.1"))
    assert (tmp_path / "c" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(found.table())
    console.file.close()
    text = console.export_text()
    assert all(str(spread) in text for group in found.groups for spread in group.spread.values() if spread.std is not None)


def test_figure_draws_means_and_bands(runs):
    found = compare([runs[name] for name in ("a0", "a1", "a2")], [8, 12], n=32)
    (axes,) = found.figure().axes
    (line,) = [line for line in axes.get_lines() if line.get_label() == "rnn"]
    np.testing.assert_allclose(line.get_xdata(), [8, 12])
    np.testing.assert_allclose(line.get_ydata(), [100 * found.groups[0].spread[length].mean for length in (8, 12)])
    band = axes.collections[-1].get_paths()[0].vertices[:, 1]
    values = [value for spread in found.groups[0].spread.values() for value in spread.values]
    assert (band.min(), band.max()) == pytest.approx((100 * min(values), 100 * max(values)))


def test_what_cannot_be_compared(runs, tmp_path):
    with pytest.raises(InvalidInputError, match="no runs"):
        compare([])
    with pytest.raises(InvalidInputError, match="twice"):
        compare([runs["a0"], runs["a0"].path], [8])
    with pytest.raises(RunError, match="not a run folder"):
        compare([tmp_path])
    shutil.copytree(runs["a1"].path, tmp_path / "copy")
    with pytest.raises(InvalidInputError, match=f"a1 and {tmp_path / 'copy'} have the same settings and seed 1"):
        compare([runs["a0"], runs["a1"], tmp_path / "copy"], [8])
