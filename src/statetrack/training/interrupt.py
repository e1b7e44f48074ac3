"""Stopping between two steps, where a checkpoint is whole, rather than wherever a signal happens to strike."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.distributed as dist

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a request that ``check`` answers after the present step; a second one kills at once.

    Used as a context manager in the main thread; elsewhere it changes nothing. An instance is an observer of training.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._request) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        for each in self._previous:
            signal.signal(each, signal.SIG_DFL)

    def __call__(self, record: dict[str, Any]) -> None:
        self.check()

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if this process, or another one of the same run, was asked to stop."""
        requested = self.requested
        if dist.is_available() and dist.is_initialized():
            votes = torch.tensor(float(requested))
            dist.all_reduce(votes)
            requested = bool(votes > 0)
        if requested:
            raise KeyboardInterrupt
