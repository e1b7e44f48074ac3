"""Many runs from the command line and in processes."""

import json
import os
import shutil
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from statetrack.cli.config_options import parse_config
from statetrack.training import Run
from statetrack.training.sweep import Job, run_jobs

GRID = "sweep --layers rnn lstm --tasks parity --seeds 0 1 --workers 0 --n 16 --test-lengths 8 --out"


def job(out, tiny, seed=0):
    return Job(replace(parse_config("rnn", "parity", tiny, "prog")[0], seed=seed), out, (8,), 16)


def test_a_grid_is_run_once_and_then_left_alone(call, tiny, tmp_path):
    folder = tmp_path / "s"
    result = call(GRID, folder, "--lrs 0.001 0.002 --seeds 4 --json", *tiny)
    assert result.code == 0
    expected = {f"{layer}-parity-lr{lr}-4" for layer in ("rnn", "lstm") for lr in ("0.001", "0.002")}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == expected
    runs = result.json["runs"]
    assert json.loads((folder / "sweep.json").read_text())["runs"] == runs
    for entry in runs:
        config = Run.open(entry["run"]).config
        assert (entry["layer"], entry["seed"], entry["lr"]) == (config.layer, config.seed, config.optim.lr)
        assert entry["accuracy"]["8"] == Run.open(entry["run"]).evaluate([8], n=16)["accuracy"][8]
    stamps = {path: path.stat().st_mtime_ns for path in folder.glob("*/checkpoints/*")}
    assert call(GRID, folder, "--lrs 0.001 0.002 --seeds 4 --json", *tiny).json["runs"] == runs
    assert stamps == {path: path.stat().st_mtime_ns for path in folder.glob("*/checkpoints/*")}


def test_a_run_that_was_cut_short_is_continued(call, tiny, tmp_path):
    folder = tmp_path / "s"
    assert call(GRID, folder, *tiny).code == 0
    run = Run.open(folder / "lstm-parity-1")
    whole = (run.latest_checkpoint() / "model.safetensors").read_bytes()
    shutil.rmtree(run.latest_checkpoint())
    assert run.progress().step == 10
    assert call(GRID, folder, *tiny).code == 0
    assert (run.latest_checkpoint() / "model.safetensors").read_bytes() == whole


def test_sweeps_may_share_a_folder(call, tiny, tmp_path, monkeypatch):
    folder, line = tmp_path / "s", "sweep --layers rnn --tasks parity --workers 0 --n 16 --test-lengths 8 --json --out"
    first = call(line, folder, "--seeds 0 1", *tiny).json["runs"]
    second = call(line, folder, "--seeds 1 2", *tiny).json["runs"]
    assert [Path(entry["run"]).name for entry in second] == ["rnn-parity-1", "rnn-parity-2"]
    assert json.loads((folder / "sweep.json").read_text())["runs"] == [first[0], *second]
    before = (folder / "sweep.json").read_text()
    refused = call(line, folder, "--seeds 3 2", *tiny, "--optim.beta1 0.5")
    assert refused.code == 2
    assert "rnn-parity-2 holds a run with other settings: optim.beta1 is 0.9 there and 0.5 here" in refused.err
    assert (folder / "sweep.json").read_text() == before
    assert not (folder / "rnn-parity-3").exists()
    monkeypatch.setattr("statetrack.cli.sweep.run_jobs", lambda jobs, **rest: [_stopped(each) for each in jobs])
    assert call(line, folder, "--seeds 2 4", *tiny).code == 130
    stored = {Path(entry["run"]).name: entry["status"] for entry in json.loads((folder / "sweep.json").read_text())["runs"]}
    assert stored == {"rnn-parity-0": "done", "rnn-parity-1": "done", "rnn-parity-2": "done", "rnn-parity-4": "stopped"}
    (folder / "sweep.json").write_text("[]")
    assert "holds no results of a sweep" in call(line, folder, "--seeds 0", *tiny).err
    assert (folder / "sweep.json").read_text() == "[]"


def test_one_failure_is_told_and_stops_nothing_else(call, tiny, tmp_path):
    folder = tmp_path / "s"
    (folder / "rnn-parity-0").mkdir(parents=True)
    (folder / "rnn-parity-0" / "config.json").write_text("not a run")
    result = call(GRID, folder, *tiny)
    assert result.code == 1
    status = {Path(entry["run"]).name: entry["status"] for entry in json.loads((folder / "sweep.json").read_text())["runs"]}
    assert status == {"rnn-parity-0": "failed", "rnn-parity-1": "done", "lstm-parity-0": "done", "lstm-parity-1": "done"}
    assert "cannot be read" in " ".join(result.out.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_is_answered_between_steps(number, tiny, tmp_path):
    jobs = [job(tmp_path / str(seed), tiny, seed) for seed in range(3)]
    outcomes = run_jobs(jobs, workers=0, done=lambda outcome: signal.raise_signal(number))
    assert [outcome.status for outcome in outcomes] == ["done", "stopped", "stopped"]
    assert not (tmp_path / "2").exists()
    assert [outcome.status for outcome in run_jobs(jobs, workers=0)] == ["done"] * 3


def test_a_stopped_sweep_says_how_to_go_on(call, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("statetrack.cli.sweep.run_jobs", lambda jobs, **rest: [_stopped(each) for each in jobs])
    result = call(GRID, tmp_path / "s", *tiny)
    assert result.code == 130
    assert result.err.startswith("Stopped. Continue with: statetrack sweep --layers rnn lstm")


def _stopped(each):
    from statetrack.training.sweep import Outcome

    return Outcome(str(each.out), each.config.layer, each.config.task, each.config.seed, each.config.optim.lr, "stopped")


class Deadly:
    """Kills the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (3,)

    def __str__(self):
        return "deadly"


def test_a_process_that_dies_takes_only_its_own_job_with_it(tiny, tmp_path):
    jobs = [replace(job(tmp_path / "a", tiny), out=Deadly()), job(tmp_path / "b", tiny)]
    first, second = run_jobs(jobs, workers=1)
    assert (first.status, second.status) == ("failed", "done")
    assert "its process died" in first.error.lower()
    here = run_jobs([job(tmp_path / "c", tiny)], workers=0)[0]
    same = ("layer", "task", "seed", "lr", "step", "validation", "accuracy")
    assert {key: asdict(second)[key] for key in same} == {key: asdict(here)[key] for key in same}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # submitit leaves its logs open
def test_on_a_cluster(call, tiny, tmp_path):
    pytest.importorskip("submitit")
    result = call("sweep --layers rnn --tasks parity --cluster debug --n 16 --test-lengths 8 --json --out", tmp_path, *tiny)
    assert [entry["status"] for entry in result.json["runs"]] == ["done"]
