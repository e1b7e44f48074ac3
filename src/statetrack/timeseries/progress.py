"""How a fit goes, on standard error: a bar in a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_EVERY = 5.0
"""Seconds between lines."""


class FitDisplay:
    """An observer of a fit and a context manager; it does nothing unless ``shown``.

    Args:
        title: said first.
        shown: whether to show anything.
        max_epochs: passes at most.
    """

    def __init__(self, title: str, *, shown: bool, max_epochs: int) -> None:
        self.title, self.shown, self.max_epochs = title, shown, max_epochs
        self.live = shown and sys.stderr.isatty()
        self.told = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> FitDisplay:
        if self.live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[line]}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            self._entry = self._bar.add_task(self.title, total=self.max_epochs, line="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one pass."""
        if not self.shown:
            return
        parts = [f"{record['epoch']}/{self.max_epochs}", f"loss {record['loss']:.4f}"]
        if "validation_score" in record:
            parts.append(f"validation {record['validation_score']:.4f} (best in pass {record['best_epoch']})")
        line, now = "  ".join(parts), time.monotonic()
        if self._bar is not None:
            self._bar.update(self._entry, completed=record["epoch"], line=line)
        elif now - self.told >= _EVERY or record["epoch"] == self.max_epochs:
            self.told = now
            print(f"{self.title}: pass {line}", file=sys.stderr)
