"""What the docstring of a class, or of one that it extends, says about each of its arguments."""

from __future__ import annotations

import inspect
import re

_SECTIONS = ("Args:", "Attributes:")


def documented(cls: type) -> dict[str, str]:
    """Help for each argument, from the ``Args`` or ``Attributes`` sections of a class and its bases; the nearest class counts."""
    return {name: text for base in reversed(cls.__mro__) for name, text in _of_docstring(base.__doc__ or "").items()}


def _of_docstring(docstring: str) -> dict[str, str]:
    lines = iter(inspect.cleandoc(docstring).splitlines())
    found: dict[str, str] = {}
    for line in lines:
        if line.strip() in _SECTIONS:
            break
    names: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith(" "):
            break
        entry = re.match(r"    (\w+(?:, \w+)*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            found.update(dict.fromkeys(names, entry[2]))
        elif line.strip():
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return {name: text.replace("``", "").replace("**", "") for name, text in found.items()}
