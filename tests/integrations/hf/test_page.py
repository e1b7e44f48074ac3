"""Every command and snippet of the page on language models runs as printed, in one folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "language-models.md"
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", PAGE.read_text(encoding="utf8"), flags=re.DOTALL)


def test_snippets_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    snippets = [text for language, text in BLOCKS if language == "python"]
    assert len(snippets) == 4
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), {})
    told = capsys.readouterr().out
    assert "torch.Size([2, 10])" in told and "parameters are trained" in told and "Box 0 contains" in told


@pytest.mark.slow
def test_commands_run(tmp_path):
    text = "\n\n\n".join(f"Tom pressed the switch {n} times. Now the lamp is off." for n in range(40))
    (tmp_path / "book.txt").write_text(text, encoding="utf8")
    commands = [line for language, text in BLOCKS if language == "bash" for line in text.splitlines()]
    assert len(commands) == 4
    for line in commands:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
