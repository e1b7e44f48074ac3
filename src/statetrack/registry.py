"""Names for layers, tasks and recipes: a decorator on a class is all that makes it known everywhere."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from statetrack.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from public names to objects, filled by importing every module of one package.

    Args:
        kind: what the entries are called in messages, such as ``"layer"``.
        package: dotted name of the package whose modules register the entries; it is imported on first use.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._entries: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that enters an object under ``name``. Raises ``InvalidInputError`` if the name is taken."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise InvalidInputError(f"The {self.kind} name {name!r} is already taken by {self._entries[name]!r}.")
            self._entries[name] = entry
            return entry

        return enter

    def get(self, name: str) -> T:
        """The entry called ``name``. Raises ``UnknownNameError`` that names the nearest known ones."""
        self._load()
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries)
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
