"""Numbers as text, and tables for the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from statetrack.training.measure import Measurement, wilson_interval

_BAR = 24
DASH = "\u2013"
"""Between the ends of a range."""


def percent(share: float) -> str:
    """A share in per cent; only perfection reads 100.

    Example:
        >>> percent(1.0), percent(0.9996), percent(0.25)
        ('100.0 %', '>99.9 %', '25.0 %')
    """
    text = f"{100 * share:.1f}"
    return f"{'>99.9' if text == '100.0' and share < 1 else text} %"


def interval(low: float, high: float) -> str:
    """An interval of shares in per cent."""
    return f"{100 * low:.1f} {DASH} {100 * high:.1f}"


def shortened(word: list[int], most: int = 60) -> str:
    """A word of tokens for people."""
    shown = " ".join(str(token) for token in word[:most])
    return shown if len(word) <= most else f"{shown} ... ({len(word):,} tokens in all)"


def bar(share: float, chance: float, width: int = _BAR) -> Text:
    """A share as a bar, with a mark where chance lies."""
    eighths = round(share * width * 8)
    text = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
    drawn, mark = Text(text.ljust(width), style="cyan"), min(width - 1, int(chance * width))
    if mark >= len(text):
        drawn = Text.assemble(drawn[:mark], ("┊", "dim"), drawn[mark + 1 :])
    else:
        drawn.stylize("dim", mark, mark + 1)
    return drawn


def accuracy_table(found: Measurement, *, title: str, trained: tuple[int, int]) -> Group:
    """Accuracy by length with its interval, drawn as bars.

    Args:
        found: the measurement.
        title: above the table.
        trained: shortest and longest training length.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("Length", justify="right")
    table.add_column("Accuracy", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True, style="dim")
    table.add_column(Text(f"┊ chance {percent(found.chance)}", style="dim"), no_wrap=True)
    for length, share in found.accuracy.items():
        style = "green" if share == 1 else "" if share > 0.9 else "red"
        inside = trained[0] <= length <= trained[1]
        label = Text(f"{length:,}", style="dim" if inside else "bold")
        table.add_row(label, Text(percent(share), style=style), interval(*found.interval(length)), bar(share, found.chance))
    if found.pooled:
        low, high, share = (found.pooled[key] for key in ("low", "high", "accuracy"))
        table.add_row(f"{low}{DASH}{high}", percent(share), interval(*wilson_interval(share, found.pooled["n"])), "pooled")
    return Group(Text(title, style="bold"), "", table)
