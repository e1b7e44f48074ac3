"""Help, version, and what starting up costs."""

import re
import subprocess
import sys

import pytest

import statetrack

COMMANDS = ("demo", "train", "eval", "report", "compare", "sweep", "recipe", "list", "bench")


def test_help_and_version(call):
    assert call("--version").out == f"statetrack {statetrack.__version__}\n"
    for words in ("--help", ""):
        result = call(words)
        assert result.code == 0
        assert all(re.search(rf"^  {name} ", result.out, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])
def test_every_command_has_help(name, call):
    result = call(f"{name} --help")
    assert result.code == 0
    assert f"statetrack {name}" in result.out
    assert result.err == ""


def test_help_does_not_load_torch():
    program = (
        "import sys; from statetrack.cli import main; main(['--help']); main(['--version']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
