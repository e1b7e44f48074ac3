"""Arguments into frozen dataclasses, by tyro; what does not fit becomes one of our errors."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro

from statetrack.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""An option without a value, off unless it is given."""

_PLAINER = (
    (r"invalid literal for int\(\) with base 10: ('.*?')", r"\1 is not a whole number"),
    (r"could not convert string to float: ('.*?')", r"\1 is not a number"),
    (r"\s*\(required\)", ""),
    (r"Could not find valid parse for arguments: (\[.*?\])", r"cannot read \1"),
)


def parse(cls: type[T], argv: Sequence[str], prog: str, *, description: str | None = None) -> T:
    """All arguments as an instance of a dataclass.

    Raises:
        UnknownNameError: an option that the dataclass lacks; names the nearest.
        InvalidInputError: a value that does not fit, or one too many or too few.
    """
    parsed, rest = parse_known(cls, argv, prog, description=description)
    refuse(rest, prog, cls)
    return parsed


def parse_known(cls: type[T], argv: Sequence[str], prog: str, *, description: str | None = None) -> tuple[T, list[str]]:
    """As ``parse``, but hands back what the dataclass does not know."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(cls, args=list(argv), prog=prog, description=description, return_unknown_args=True)
    except SystemExit as exit:
        if not exit.code:
            raise
        raise InvalidInputError(_first_paragraph(complaint.getvalue(), prog)) from None


def refuse(rest: Sequence[str], prog: str, *classes: type) -> None:
    """Raise for arguments that are no options of any of the dataclasses."""
    if not rest:
        return
    given = next((token for token in rest if token.startswith("-")), None)
    if given is None:
        raise InvalidInputError(f"Unexpected argument {rest[0]!r}. See {prog} --help")
    error = UnknownNameError("option", given.split("=")[0], [flag for cls in classes for flag in flags(cls)])
    raise error if error.suggestions else InvalidInputError(f"Unknown option {given!r}. See {prog} --help")


def flags(cls: type, prefix: str = "--") -> list[str]:
    """Spellings of all options of a dataclass and of those within it."""
    found = []
    for name, hint in get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found += flags(hint, f"{prefix}{name}.")
        else:
            found += [prefix + name.replace("_", "-")] + [f"{prefix}no-{name.replace('_', '-')}"] * (hint is bool)
    return found


def _first_paragraph(box: str, prog: str) -> str:
    """What tyro's box says above its first rule, on one line, and where to look."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip("│╭╮╰╯ ") for line in box.splitlines()]
    body: list[str] = []
    for line in lines[1:]:
        if set(line) <= {"─"}:
            break
        body.append(line.strip())
    text = " ".join(body) or box.strip()
    for pattern, replacement in _PLAINER:
        text = re.sub(pattern, replacement, text)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}.\nSee {prog} --help"


def helped(annotation: Any, text: str) -> Any:
    """An annotation with its help."""
    return Annotated[annotation, tyro.conf.arg(help=text)] if text else annotation


def section(doc: str, entries: dict[str, tuple[Any, Any, str]]) -> Any:
    """An instance of a new frozen dataclass.

    Args:
        doc: one sentence about all of it.
        entries: annotation, value and help of each field.
    """
    fields = [
        (name, helped(annotation, text), dataclasses.field(default=value)) for name, (annotation, value, text) in entries.items()
    ]
    return dataclasses.make_dataclass("Section", fields, frozen=True, namespace={"__doc__": doc, "__module__": __name__})()
