"""Commands that show runs: report, compare, recipe, bench and demo."""

import shlex
import sys
import types
from html.parser import HTMLParser
from pathlib import Path

import pytest

from statetrack.cli import demo
from statetrack.cli.config_options import parse_config
from statetrack.training import Run


def test_report_says_where_it_is(call, trained, tmp_path):
    result = call("report", trained, "--lengths 8 12 --n 16 --out", tmp_path / "deep" / "page.html")
    assert (result.code, result.out) == (0, f"{tmp_path / 'deep' / 'page.html'}\n")
    HTMLParser().feed((tmp_path / "deep" / "page.html").read_text())


def test_compare_prints_and_writes(call, tiny, tmp_path):
    for seed in (0, 1):
        call(f"train rnn parity --seed {seed} --test-lengths 8 --out", tmp_path / str(seed), *tiny)
    line = ("compare", tmp_path / "0", tmp_path / "1", "--lengths 8 12 --n 16 --out", tmp_path / "c")
    found = call(*line, "--json").json
    (group,) = found["groups"]
    assert (group["seeds"], list(group["accuracy"])) == ([0, 1], ["8", "12"])
    result = call(*line)
    assert "rnn" in result.out
    assert "±" in result.out
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["comparison.json", "comparison.png", "comparison.svg"]


def test_recipe_is_run_with_its_options(call, tmp_path, monkeypatch):
    seen = {}

    class Fake:
        def __init__(self, preset):
            self.preset = preset or "cpu"

        def run(self, *, out, workers, observer, only):
            observer("one run done")
            seen.update(preset=self.preset, out=out, workers=workers, only=only)
            return {"rows": [1, 2]}

        def table(self, result):
            return f"| rows |\n|---|\n| {result['rows']} |"

    monkeypatch.setattr("statetrack.cli.recipe.recipes", types.SimpleNamespace(get=lambda name: Fake))
    result = call("recipe fake --preset paper --workers 2 --only a-* b-0 --json --out", tmp_path)
    assert result.json == {"rows": [1, 2]}
    assert result.err == "one run done\n"
    assert seen == {"preset": "paper", "out": tmp_path, "workers": 2, "only": ("a-*", "b-0")}
    assert "| [1, 2] |" in call("recipe fake --out", tmp_path).out
    assert call("recipe fake").code == 0
    assert (seen["out"], seen["only"]) == (Path("runs/fake-cpu"), ("*",))


def test_bench_gets_its_options_and_its_code_is_ours(call, monkeypatch):
    seen = []
    module = types.ModuleType("statetrack.bench")
    module.run_bench = lambda name, **options: seen.append((name, options)) or 1
    monkeypatch.setitem(sys.modules, "statetrack.bench", module)
    monkeypatch.delitem(sys.modules, "statetrack.cli.bench", raising=False)
    assert call("bench scan --quick --json --save b.json").code == 1
    assert seen == [("scan", {"quick": True, "json_path": Path("b.json"), "out": None, "as_json": True})]


@pytest.fixture
def small_demo(tiny, tmp_path, monkeypatch):
    options = shlex.split("--steps 20 --batch-size 8 --layer.d-state 4 --layer.n-heads 1 --model.d-model 8 --lengths.high 8")
    config = parse_config("flash-pd-ssm", "cycle-navigation", [*options, *tiny[-8:]], "prog")[0]
    monkeypatch.setattr(demo, "default_config", lambda layer, task, seed: config)
    monkeypatch.setattr(demo, "LENGTHS", (8, 12))
    monkeypatch.chdir(tmp_path)


def test_demo_trains_tests_and_reports_and_can_be_repeated(call, small_demo):
    first = call("demo --n 16")
    assert first.code == 0
    assert "Report: runs/demo/report.html" in first.out
    assert "95 % interval" in first.out
    assert Path("runs/demo/report.html").read_text().count("<svg") == 4
    assert demo.demo_folder() == Path("runs/demo")
    assert not Path("runs/demo").exists()


def test_demo_leaves_other_runs_alone(call, small_demo, tiny):
    assert call("train rnn parity --test-lengths 8 --out runs/demo", *tiny).code == 0
    assert demo.demo_folder() == Path("runs/demo-2")
    assert Run.open("runs/demo").config.layer == "rnn"
    refused = call("demo --out runs/demo")
    assert refused.code == 2
    assert "already exists" in refused.err
