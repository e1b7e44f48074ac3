"""Bad input and bad luck: one or two lines that say what to do, an exit code, no traceback, nothing lost."""

import errno
import json
import shutil
import subprocess
import sys

import pytest
import safetensors.torch

from statetrack.training import Run

BAD_INPUT = {
    "command": ("trian", "Did you mean 'train'"),
    "layer": ("train flash-pd-sm parity", "Did you mean 'flash-pd-ssm'"),
    "task": ("train rnn paritty", "Did you mean 'parity'?"),
    "no task": ("train rnn", "LAYER and TASK come first"),
    "options first": ("train --seed 3 rnn parity", "LAYER and TASK come first"),
    "option": ("train rnn parity --layer.d-stat 3", "Did you mean '--layer.d-state'"),
    "option without its group": ("train rnn parity --d-state 3", "Did you mean '--layer.d-state'"),
    "option of another layer": ("train rnn parity --layer.dictionary-size 3", "Unknown option '--layer.dictionary-size'"),
    "whole number": ("train rnn parity --steps many", "'many' is not a whole number"),
    "number": ("train rnn parity --optim.lr fast", "'fast' is not a number"),
    "missing value": ("train rnn parity --steps", "--steps"),
    "choice": ("train rnn parity --task.format slic", "'slice', 'xlstm', 'chomsky'"),
    "leftover": ("train rnn parity 12", "Unexpected argument '12'"),
    "value of a layer": ("train rnn parity --layer.d-state 0", "at least 1"),
    "seed": ("train rnn parity --seed -1", "seed must lie in 0"),
    "steps": ("train rnn parity --steps 0", "steps must be positive, got 0"),
    "group": ("train rnn group-word --task.group A55x", "A55x"),
    "cycle": ("train rnn cycle-navigation --task.cycle 1", "at least 2, got 1"),
    "automaton file": ("train rnn automaton --task.file nowhere.json", "nowhere.json"),
    "lengths the format cannot make": (
        "train rnn parity --task.format xlstm --lengths.low 1",
        "shortest length that 'parity' can make is 2",
    ),
    "test lengths": ("train rnn parity --test-lengths 8 0", "shortest that 'parity' can make is 1"),
    "test lengths of a sweep": (
        "sweep --out s --layers rnn --tasks parity --test-lengths 0",
        "asked for at length 0",
    ),
    "lengths upside down": ("train rnn parity --lengths.low 9 --lengths.high 5", "low <= high"),
    "validation lengths": ("train rnn parity --evaluation.low 9 --evaluation.high 5", "lies above"),
    "resume without a folder": ("train rnn parity --resume", "needs --out RUN"),
    "resume of nothing": ("train --resume nowhere", "nowhere is not a run folder"),
    "eval of nothing": ("eval nowhere", "nowhere is not a run folder"),
    "inspect of nothing": ("inspect nowhere", "nowhere is not a run folder"),
    "report of nothing": ("report nowhere", "nowhere is not a run folder"),
    "compare nothing": ("compare", "statetrack compare RUN RUN"),
    "compare with nothing": ("compare nowhere", "nowhere is not a run folder"),
    "list": ("list layer", "Did you mean 'layers'?"),
    "recipe": ("recipe fsb", "Unknown recipe 'fsb'"),
    "sweep layer": ("sweep --out s --layers rn --tasks parity", "Did you mean 'rnn'"),
    "sweep option": ("sweep --out s --layers rnn --tasks parity --seed 3", "Did you mean '--seeds'"),
    "sweep workers": ("sweep --out s --layers rnn --tasks parity --workers -1", "at least 0"),
    "demo option": ("demo --sed 3", "Did you mean '--seed'"),
}


def complains(result, fragment, code=2):
    lines = result.err.rstrip("\n").splitlines()
    assert result.code == code
    assert fragment in result.err
    assert "Traceback" not in result.err
    assert any(line.startswith("statetrack: error: ") for line in lines[-2:])


@pytest.mark.parametrize(("line", "fragment"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_refused_in_two_lines_and_leaves_nothing_behind(line, fragment, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call(line)
    complains(result, fragment)
    assert len(result.err.rstrip("\n").splitlines()) <= 2
    assert result.out == ""
    assert list(tmp_path.iterdir()) == []


def test_lengths_of_a_test_are_checked(call, trained):
    complains(call("eval", trained, "--lengths 0"), "smallest it can make is 1")
    complains(call("eval", trained, "--n 0"), "at least 1")


def test_a_folder_that_is_taken_is_left_alone(call, trained, tiny):
    before = (trained / "config.json").read_text()
    complains(call("train rnn parity --out", trained, *tiny), f"Continue it with --resume {trained}")
    assert (trained / "config.json").read_text() == before


def test_a_run_of_another_version_is_named_as_such(call, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "old")
    stored = json.loads((trained / "config.json").read_text())
    (tmp_path / "old" / "config.json").write_text(json.dumps({**stored, "format": 0, "statetrack": "0.0.7"}))
    for command in ("eval", "report", "train --resume", "compare"):
        complains(call(command, tmp_path / "old"), "0.0.7")
    stored["config"]["optim"]["momentum"] = 0.9
    (tmp_path / "old" / "config.json").write_text(json.dumps(stored))
    complains(call("eval", tmp_path / "old"), "momentum")


def test_a_damaged_checkpoint_is_named(call, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "hurt")
    (Run.open(tmp_path / "hurt").latest_checkpoint() / "model.safetensors").write_bytes(b"\x00" * 40)
    complains(call("eval", tmp_path / "hurt", "--lengths 8"), "damaged")


def test_a_full_disk_loses_nothing_that_was_saved(call, tiny, tmp_path, monkeypatch):
    written, real = [], safetensors.torch.save_file

    def save_file(tensors, path, *rest, **options):
        written.append(path)
        if len(written) > 3:  # the first checkpoint takes three files
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tensors, path, *rest, **options)

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)
    result = call("train rnn parity --out", tmp_path / "x", *tiny)
    monkeypatch.undo()
    complains(result, "Cannot write the checkpoint of step 20: No space left on device", code=1)
    assert f"statetrack train --resume {tmp_path / 'x'}" in result.err
    assert [path.name for path in (tmp_path / "x" / "checkpoints").iterdir()] == ["step-00000010"]
    assert call("train --json --test-lengths 8 --resume", tmp_path / "x").json["step"] == 20


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_batch(call, tiny, tmp_path):
    result = call("train rnn parity --optim.lr 1e30 --optim.warmup 0 --out", tmp_path / "x", *tiny)
    complains(result, "failed_batch.safetensors", code=1)
    batch = safetensors.torch.load_file(tmp_path / "x" / "failed_batch.safetensors")
    assert batch["inputs"].shape[0] == 8


def test_a_reader_that_leaves_early_is_no_error():
    process = subprocess.Popen([sys.executable, "-m", "statetrack", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) in (0, 141)
    assert errors == b""


def test_missing_extras_name_what_to_install(call, tiny, tmp_path, monkeypatch):
    for module in ("submitit", "tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    complains(call("train rnn parity --tensorboard", *tiny), "statetrack[tensorboard]")
    complains(call("sweep --out s --layers rnn --tasks parity --cluster slurm", *tiny), "statetrack[cluster]")
