"""Training, continuing and testing from the command line."""

import json
import shlex

import numpy as np
import pytest
import torch

from statetrack.cli import main
from statetrack.report.reproduce import train_command
from statetrack.tasks import fixed_set
from statetrack.training import Run


def test_train_writes_a_run_with_the_given_settings(call, tiny, tmp_path):
    result = call(
        "train rnn parity --seed 5 --task.format chomsky --optim.lr 0.01 --lengths.no-mixed --test-lengths 8 --out",
        tmp_path / "x",
        *tiny,
    )
    assert result.code == 0
    assert "100" in result.out or "%" in result.out
    assert str(tmp_path / "x") in result.err
    config = Run.open(tmp_path / "x").config
    assert (config.layer, config.task, config.seed, config.steps) == ("rnn", "parity", 5, 20)
    assert config.task_options == {"format": "chomsky"}
    assert config.model.layer == {"d_state": 4}
    assert (config.optim.lr, config.lengths.mixed, config.lengths.high) == (0.01, False, 8)
    assert Run.open(tmp_path / "x").progress().finished


def test_json_is_all_there_is_on_standard_output(call, tiny, tmp_path):
    result = call("train rnn parity --json --test-lengths 8 12 --out", tmp_path / "x", *tiny)
    found = result.json
    assert found["run"] == str(tmp_path / "x")
    assert (found["layer"], found["task"], found["seed"], found["step"]) == ("rnn", "parity", 0, 20)
    assert set(found["accuracy"]) == {"8", "12"}
    assert "step 20/20" in result.err


def test_folders_without_a_name_get_one_that_is_free(call, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("train rnn parity --seed 4 --test-lengths 8", *tiny).code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["rnn-parity-4", "rnn-parity-4-2"]


def test_eval_counts_right_answers_on_the_test_split(call, trained):
    found = call("eval", trained, "--lengths 8 15 --n 40 --json").json
    run = Run.open(trained)
    model = run.load_model()
    for length in (8, 15):
        right = 0
        for batch in fixed_set(run.task, 40, length, length, 3, "test", 40):
            scores = model(batch.inputs)[0][:, -1]
            parity = (batch.inputs == 2).sum(1) % 2  # token 2 is b; the classes are tokens 1 and 2
            right += int((scores.argmax(-1) == parity + 1).sum())
        assert found["accuracy"][str(length)] == right / 40
        assert found["scaled_accuracy"][str(length)] == pytest.approx(2 * right / 40 - 1)
        low, high = found["interval_95"][str(length)]
        assert low <= right / 40 <= high
    assert (found["n"], found["chance"]) == (40, 0.5)


def test_eval_pools_and_prints_a_table(call, trained):
    result = call("eval", trained, "--lengths 8 1000 --n 20 --pooled 8 12")
    assert result.code == 0
    assert "1,000" in result.out
    assert "8\u201312" in result.out
    assert "Above 90 % up to" in result.out


def test_resume_of_a_finished_run_changes_nothing(call, trained):
    before = {path: path.read_bytes() for path in (trained / "checkpoints").rglob("*") if path.is_file()}
    result = call("train --resume", trained, "--test-lengths 8 --json")
    assert (result.code, result.json["step"]) == (0, 20)
    assert before == {path: path.read_bytes() for path in (trained / "checkpoints").rglob("*") if path.is_file()}


def test_resume_with_names_begins_continues_and_refuses(call, tiny, tmp_path):
    line = ("train rnn parity --resume --test-lengths 8 --json --out", tmp_path / "x", *tiny)
    assert call(*line).json["step"] == 20
    weights = Run.open(tmp_path / "x").load_model().state_dict()
    assert call(*line).json["step"] == 20
    again = Run.open(tmp_path / "x").load_model().state_dict()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    refused = call(*line, "--optim.beta1 0.5")
    assert refused.code == 2
    assert "optim.beta1 is 0.9 there and 0.5 here" in refused.err


def test_the_lengths_that_were_asked_for_are_remembered(call, tiny, tmp_path):
    out = tmp_path / "x"
    assert call("train rnn parity --test-lengths 9 12 --out", out, *tiny).code == 0
    assert list(call("train --json --resume", out).json["accuracy"]) == ["9", "12"]
    assert list(call("train --test-lengths 7 --json --resume", out).json["accuracy"]) == ["7"]
    assert list(call("train rnn parity --json --resume --out", out, *tiny).json["accuracy"]) == ["7"]
    assert list(call("train --monitor 5 --json --resume", out).json["accuracy"]) == ["7"]
    refused = call("train --test-lengths 0 --resume", out)
    assert refused.code == 2 and "can make is 1" in refused.err


def test_a_run_does_without_the_files_of_its_task(call, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine = {"transitions": [[1, 0], [0, 1]], "outputs": [0, 1], "symbols": ["a", "b"]}
    (tmp_path / "machine.json").write_text(json.dumps(machine, indent=1))
    (tmp_path / "odd.att").write_text("0 1 a a\n1 0 a a\n1")
    assert call("train rnn automaton --task.file machine.json --test-lengths 8 --out x", *tiny).code == 0
    assert call("train rnn regular-language --task.file odd.att --test-lengths 8 --out y", *tiny).code == 0
    again = ("train rnn automaton --resume --task.file machine.json --test-lengths 8 --out x", *tiny)
    assert call(*again).code == 0
    (tmp_path / "machine.json").write_text(json.dumps({**machine, "outputs": [1, 0]}))
    assert "task.file is" in call(*again).err
    (tmp_path / "machine.json").unlink()
    (tmp_path / "odd.att").unlink()
    words = np.array([[0, 1, 0, 0], [1, 1, 1, 0]])
    assert Run.open("x").task.words.output(words).tolist() == [[1, 1, 0, 1], [0, 0, 0, 1]]
    assert Run.open("y").task.automaton.output(np.array([[0, 0, 0]])).tolist() == [[1, 0, 1]]
    for run in "xy":
        assert call("eval", run, "--lengths 9 --n 8").code == 0
        command = shlex.split(train_command(Run.open(run).config, "again-" + run))
        assert main([*command[1:], "--test-lengths", "8"]) == 0
        for a, b in zip(Run.open(run).load_model().parameters(), Run.open("again-" + run).load_model().parameters(), strict=True):
            assert torch.equal(a, b)


def test_help_lists_the_options_of_layer_and_task(call):
    result = call("train flash-pd-ssm cycle-navigation --help")
    assert result.code == 0
    for option in (
        "--layer.dictionary-size",
        "--task.cycle",
        "--optim.lr",
        "--lengths.high",
        "--model.n-layers",
        "--seed",
        "--out",
    ):
        assert option in result.out


def test_metrics_and_config_are_json(trained):
    stored = json.loads((trained / "config.json").read_text())
    assert stored["config"]["layer"] == "rnn"
    steps = [json.loads(line)["step"] for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 20


def test_a_monitor_logs_the_use_of_states_and_changes_nothing(call, tiny, tmp_path, trained):
    line = "train rnn parity --seed 3 --test-lengths 8 --monitor 10"
    assert call(line, "--out", tmp_path / "x", *tiny).code == 0
    records = [json.loads(line) for line in (tmp_path / "x" / "state_use.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [10, 20]
    assert {"layer", "utilisation", "participation", "rank", "hoyer"} <= set(records[0]["layers"][0])
    for a, b in zip(Run.open(tmp_path / "x").load_model().parameters(), Run.open(trained).load_model().parameters(), strict=True):
        assert torch.equal(a, b)
    assert call(line, "--resume --out", tmp_path / "x", *tiny).code == 0
    refused = call(line, "--resume --out", tmp_path / "x", "--optim.lr 0.5", *tiny)
    assert refused.code and "other settings" in refused.err
    assert call("train rnn parity --monitor -1 --out", tmp_path / "y", *tiny).code
    assert not (tmp_path / "y").exists()
