"""Runs that are killed or stopped go on as if nothing had happened: the weights end up the same, bit for bit."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file

from statetrack.cli import main
from statetrack.training import Run

LINE = shlex.split(
    "train rnn parity --seed 1 --steps 300 --batch-size 8 --layer.d-state 4 --model.d-model 8 --model.n-layers 1 "
    "--model.dropout 0.1 --lengths.high 8 --evaluation.n 8 --evaluation.every 50 --evaluation.low 8 --evaluation.high 10 "
    "--optim.schedule cosine --evaluation.stop-at 2 --checkpoint-every 20 --test-lengths 8"
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main([*LINE, "--out", str(out)]) == 0
    return Run.open(out)


def interrupted(out, number):
    """The same run in a process of its own that gets a signal once a checkpoint is there; its exit code and last words."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "statetrack", *LINE, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        while not list(out.glob("checkpoints/step-*")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.005)
        process.send_signal(number)
        return process.wait(60), process.communicate()[1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_an_interrupted_run_ends_like_one_that_was_not(number, uninterrupted, tmp_path):
    out = tmp_path / "run"
    code, words = interrupted(out, number)
    stopped = Run.open(out).progress().step
    assert 0 < stopped < 300
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        assert stopped % 20 == 0
    else:
        assert code == 130
        assert words.splitlines()[-1] == f"Stopped at step {stopped}. Continue with: statetrack train --resume {out}"
        assert "Traceback" not in words
    assert main(["train", "--resume", str(out)]) == 0
    assert list(Run.open(out).evaluation()["accuracy"]) == ["8"]
    ours, theirs = Run.open(out), uninterrupted
    assert ours.progress().step == theirs.progress().step == 300
    for file in ("model.safetensors", "optimizer.safetensors"):
        a, b = load_file(ours.latest_checkpoint() / file), load_file(theirs.latest_checkpoint() / file)
        assert a.keys() == b.keys()
        assert all(a[name].numpy().tobytes() == b[name].numpy().tobytes() for name in a)
    strip = lambda run: [{k: v for k, v in record.items() if k != "cpu_seconds"} for record in run.metrics()]  # noqa: E731
    assert strip(ours) == strip(theirs)
