"""Scalars for TensorBoard, beside the run's own log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statetrack.errors import MissingExtraError

_SCALARS = ("loss", "accuracy", "longest", "lr", "validation")


class TensorBoard:
    """An observer of training that writes scalars into a folder.

    Args:
        folder: where event files go.
        every: steps between records; steps with a validation are always written.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, every: int = 10) -> None:
        self.folder, self.every = folder, every
        self._class = self.require()
        self._writer: Any = None

    @staticmethod
    def require() -> Any:
        """The writer's class. Raises ``MissingExtraError`` if TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard", "Writing TensorBoard logs") from error
        return SummaryWriter

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one step."""
        if self._writer is None:
            # Not sooner: a run folder must be empty when the run is created.
            self._writer = self._class(str(self.folder))
        if record["step"] % self.every == 0 or "validation" in record:
            for name in _SCALARS:
                if name in record:
                    self._writer.add_scalar(name, record[name], record["step"])

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
