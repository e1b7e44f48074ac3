"""Help, version, and what starting up costs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import statetrack
from statetrack.recipes import recipes

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


@pytest.mark.parametrize("name", list(recipes))
def test_help_of_a_recipe_says_what_it_is_and_reads(name, call):
    told = " ".join(call(f"recipe {name} --help").out.split())
    assert recipes.get(name).summary in told
    assert f"Presets: {', '.join(recipes.get(name).presets)}." in told
    source = Path(sys.modules[recipes.get(name).__module__].__file__).read_text()
    reads = "BACKBONE" in source or "TEXT" in source or "archive import" in source
    assert ("environment variable STATETRACK_" in told) == reads


def test_a_recipe_says_what_it_lacks(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, variable, holds in (("lm-small", "STATETRACK_TEXT", "text file"), ("words", "STATETRACK_BACKBONE", "GGUF")):
        monkeypatch.delenv(variable, raising=False)
        missing = call("recipe", name)
        assert missing.code == 2
        assert f"{variable} is not set" in missing.err and holds in missing.err and f"export {variable}=" in missing.err
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
        assert f"{variable} is '{tmp_path / 'nowhere'}'" in call("recipe", name).err
    monkeypatch.setenv("STATETRACK_TEXT", str(tmp_path))
    assert "is no file" in call("recipe lm-small").err
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_load_torch():
    program = (
        "import sys; from statetrack.cli import main; main(['--help']); main(['--version']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
