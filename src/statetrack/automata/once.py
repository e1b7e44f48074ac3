"""A property that is computed once, also when the answer is that the automaton is too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from statetrack.automata.monoid import TooLargeError

T = TypeVar("T")


class once(Generic[T]):
    """As ``functools.cached_property``, but a ``TooLargeError`` is kept as well and raised again."""

    def __init__(self, question: Callable[[Any], T]) -> None:
        self.question, self.key = question, f"_once_{question.__name__}"
        self.__doc__ = question.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        kept = instance.__dict__
        if self.key not in kept:
            try:
                kept[self.key] = self.question(instance)
            except TooLargeError as error:
                kept[self.key] = error
        if isinstance(kept[self.key], TooLargeError):
            raise kept[self.key]
        return kept[self.key]
