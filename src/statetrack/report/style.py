"""How figures look: a palette that colour-blind readers can tell apart, and colours that follow the theme of a page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito (2008), darkest first, so that the first lines stand out on white."""

INK, MUTED, RULE, SHADE = "#1b1f24", "#5b6570", "#d8dce1", "#eef1f4"
PAPER = "#fffffe"
"""The page itself; a colour of its own, so that white can stay white."""

_VARIABLES = {
    SERIES[0]: "series-1",
    SERIES[1]: "series-2",
    SERIES[2]: "series-3",
    SERIES[3]: "series-4",
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    SHADE: "shade",
    PAPER: "paper",
}
"""The page's custom property for each colour."""
_RC = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}


@contextmanager
def styled(name: str) -> Iterator[None]:
    """Our look for the figures drawn within; the name keeps the ids of several figures on one page apart."""
    import matplotlib

    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}):
        yield


def inline_svg(figure: Any, label: str) -> str:
    """A figure as an ``<svg>`` element that scales, takes the page's colours and tells screen readers what it shows."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", svg[: svg.index(">")]) + svg[svg.index(">") :]
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))  # the other ids would occur once in every figure of a page
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    escaped = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escaped}"', 1)
