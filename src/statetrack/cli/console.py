"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from statetrack.report.tables import DASH, percent

_PLAIN_EVERY, _LIVE_EVERY = 5.0, 0.1
"""Seconds between updates."""


def console(*, stderr: bool = False) -> Console:
    """A console for one of the two streams; tables get room where no terminal sets the width."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 120, highlight=False)


def note(message: str) -> None:
    """Tell the user something that is not a result."""
    print(message, file=sys.stderr)


def print_json(data: Any) -> None:
    """One JSON object."""
    print(json.dumps(data, indent=2, allow_nan=False))


class TrainingDisplay:
    """Shows how a run goes: a live bar in a terminal, otherwise a line every few seconds.

    It is an observer of training and a context manager.

    Args:
        title: said when the first step is done.
        steps: most steps that may be taken.
    """

    def __init__(self, title: str, steps: int) -> None:
        self.title = title
        self.console = console(stderr=True)
        self.live = self.console.is_terminal
        self.step = self.first = 0
        self.validation = self.attempt = None
        self.began = self.shown = time.monotonic()
        self.bar = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.fields[line]}"),
            console=self.console,
            disable=not self.live,
            expand=True,
        )
        self.entry = self.bar.add_task("", total=steps, line="preparing")

    def __enter__(self) -> TrainingDisplay:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one step."""
        now = time.monotonic()
        if not self.step:
            self.console.print(self.title, soft_wrap=True)
            self.first, self.began, self.shown, self.attempt = record["step"] - 1, now, now - _PLAIN_EVERY, record["attempt"]
        self.step = record["step"]
        self.validation = record.get("validation", self.validation)
        if record["attempt"] != self.attempt:
            self.attempt = record["attempt"]
            self.console.print(f"step {self.step}: the first lengths were not learnt; starting over with new weights")
        due = now - self.shown >= (_LIVE_EVERY if self.live else _PLAIN_EVERY)
        if due or record["finished"]:
            self.shown = now
            self._show(record, now)

    def _show(self, record: dict[str, Any], now: float) -> None:
        validation = DASH if self.validation is None else percent(self.validation)
        parts = [
            f"{record['step']}/{record['steps']}",
            f"loss {record['loss']:.3f}",
            f"acc {percent(record['accuracy'])}",
            f"length {record['longest']}",
            f"val {validation}",
            "done" if record["finished"] else f"≤ {self._left(record, now)}",
        ]
        if self.live:
            total = record["step"] if record["finished"] else record["steps"]
            self.bar.update(self.entry, completed=record["step"], total=total, line="  ".join(parts))
        else:
            self.console.print("step " + "  ".join(parts))

    def _left(self, record: dict[str, Any], now: float) -> str:
        """Time left if all steps are taken; training may end earlier."""
        pace = (now - self.began) / max(1, record["step"] - self.first)
        minutes, seconds = divmod(round(pace * (record["steps"] - record["step"])), 60)
        return f"{minutes}:{seconds:02d}"
