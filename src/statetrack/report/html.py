"""What the library's pages share: templates, and figures in two widths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_WIDTHS = {"wide": 7.4, "narrow": 3.7}
"""Inches. A page holds each figure in both, so that its text stays readable on a phone."""


def rendered(template: str, content: dict[str, Any]) -> str:
    """A page from a template of ``templates/`` and its content, which is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("statetrack.report"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(content) + "\n"


def in_both_widths(draw: Callable[..., str], name: str) -> dict[str, str]:
    """A figure by width, from a function of ``width`` (inches) and ``name``, which keeps ids apart."""
    return {kind: draw(width=width, name=f"{name}-{kind}") for kind, width in _WIDTHS.items()}
