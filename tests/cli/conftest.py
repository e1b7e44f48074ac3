"""Runs small enough to train in a blink, and the command run in this process."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from statetrack.cli import main

TINY = shlex.split(
    "--steps 20 --batch-size 8 --layer.d-state 4 --model.d-model 8 --model.n-layers 1 --checkpoint-every 10 "
    "--lengths.high 8 --evaluation.n 8 --evaluation.every 10 --evaluation.low 8 --evaluation.high 10"
)


@dataclass(frozen=True)
class Result:
    """What one call of the command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs ``statetrack`` in this process on words of a line."""

    def run(*words: str | Path) -> Result:
        code = main([part for word in words for part in (str(word).split() if isinstance(word, str) else [str(word)])])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def tiny() -> list[str]:
    """Options that make a run tiny."""
    return list(TINY)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tiny run, not to be changed."""
    out = tmp_path_factory.mktemp("trained") / "run"
    assert main(["train", "rnn", "parity", "--seed", "3", "--out", str(out), "--test-lengths", "8", *TINY]) == 0
    return out
