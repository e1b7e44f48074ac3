"""What a recipe is: a published experiment as a list of runs, with its protocol, our settings and the published numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from statetrack.errors import UnknownNameError
from statetrack.registry import Registry

recipes: Registry[type[Recipe]] = Registry("recipe", "statetrack.recipes")


def register(name: str) -> Callable[[type[Recipe]], type[Recipe]]:
    """Class decorator that makes a recipe known under ``name``."""
    return recipes.register(name)


class Recipe(ABC):
    """A published experiment.

    Args:
        preset: which settings, one of ``presets``; None takes the first.

    Raises:
        UnknownNameError: no such preset.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    presets: ClassVar[tuple[str, ...]]

    def __init__(self, preset: str | None = None) -> None:
        preset = self.presets[0] if preset is None else preset
        if preset not in self.presets:
            raise UnknownNameError(f"preset of {self.name}", preset, self.presets)
        self.preset = preset

    @abstractmethod
    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Do the runs that are not done yet under ``out``, write the results there atomically, and return them."""

    @abstractmethod
    def table(self, result: dict[str, Any]) -> str:
        """The results as a Markdown table, the published numbers beside ours."""
