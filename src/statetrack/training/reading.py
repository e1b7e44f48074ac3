"""Plain data back into the dataclass it came from, with every name and type checked: files are edited by hand."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal, TypeVar, Union

from statetrack.errors import InvalidInputError

T = TypeVar("T")


def from_plain(kind: type[T], data: Any, where: str = "") -> T:
    """An object of a dataclass from what ``dataclasses.asdict`` and JSON made of it.

    Args:
        kind: the dataclass; its fields may be dataclasses themselves.
        data: names and values.
        where: put before names in messages.

    Raises:
        InvalidInputError: a name the class does not have, one that is missing, or a value of another type.
    """
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where.rstrip('.') or 'The data'} must hold names and values, got {data!r}.")
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, kind))}
    for name in data:
        if name not in fields:
            raise InvalidInputError(f"{where}{name} is unknown; known are {', '.join(fields)}.")
    for name, field in fields.items():
        if name not in data and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidInputError(f"{where}{name} is missing.")
    return kind(**{name: _value(hints[name], value, f"{where}{name}") for name, value in data.items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(Any, hint), value, f"{name}.")
    if not _fits(hint, value):
        raise InvalidInputError(f"{name} must be {_told(hint)}, got {value!r}.")
    return value


def _fits(hint: Any, value: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(choice, value) for choice in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint is Any or isinstance(value, origin or hint)


def _told(hint: Any) -> str:
    """A type in words."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_told(choice) for choice in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    words = {float: "a number", int: "a whole number", str: "text", bool: "true or false", dict: "names and values"}
    return "null" if hint is type(None) else words.get(origin or hint, str(hint))
