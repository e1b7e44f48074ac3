"""Eigenvalues on the unit disc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from statetrack.analysis.spectra import Spectrum
from statetrack.errors import InvalidInputError, RunError
from statetrack.report.style import INK, MUTED, RULE, SERIES, styled
from statetrack.report.tables import percent

_CELLS = 160
"""Eigenvalues that fall into one cell of a grid of so many per side are drawn once."""
_LARGEST, _SMALLEST = 700.0, 9.0
"""Area of a mark that stands for all eigenvalues, and the least area, in square points."""
_SAID = 0.0005
_SUFFIXES = (".png", ".svg", ".pdf")


def draw_spectrum(found: Spectrum, path: str | Path, *, title: str = "") -> None:
    """Write the eigenvalues as a picture.

    Args:
        found: of single transitions or of products.
        path: ends in ``.png``, ``.svg`` or ``.pdf``.
        title: said above it.

    Raises:
        InvalidInputError: another kind of file.
        RunError: a disk that refuses.
    """
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise InvalidInputError(f"A picture ends in {', '.join(_SUFFIXES)}; got {path.name!r}.")
    with styled("spectrum"):
        figure = Figure(figsize=(4.2, 4.8), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        disc(axes, found, SERIES[0] if found.length == 1 else SERIES[1], title, said(found))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise RunError(f"Cannot write {path}: {error.strerror}.") from error


def disc(axes: Any, found: Spectrum, colour: str, title: str, below: str) -> None:
    """Draw eigenvalues and the unit circle, with a title and text below; the area of a mark is the share of eigenvalues there."""
    from matplotlib.patches import Circle

    values = found.eigenvalues.flatten()
    edge = max(1.12, 1.08 * float(values.abs().max()))
    cells = torch.stack([values.real, values.imag], dim=-1).div(2 * edge / _CELLS).round()
    places, counts = cells.unique(dim=0, return_counts=True)
    x, y = places.mul(2 * edge / _CELLS).unbind(-1)
    areas = (_LARGEST * counts / len(values)).clamp(min=_SMALLEST)
    axes.axhline(0, color=RULE, linewidth=0.7)
    axes.axvline(0, color=RULE, linewidth=0.7)
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=MUTED, linewidth=1))
    axes.scatter(x.tolist(), y.tolist(), s=areas.tolist(), color=colour, alpha=0.6, linewidths=0, clip_on=False, zorder=3)
    axes.set_aspect("equal")
    axes.set_xlim(-edge, edge)
    axes.set_ylim(-edge, edge)
    axes.set_xticks([-1, 0, 1], ["\u22121", "0", "1"])
    axes.set_yticks([-1, 0, 1], ["\u2212i", "0", "i"])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel(below, fontsize=8.5, loc="left", linespacing=1.35)


def said(found: Spectrum, *, per_line: int = 2) -> str:
    """Where the eigenvalues lie, in short lines; shares that would read 0.0 % are left out."""
    shares = found.shares()
    parts = [
        f"{percent(share)} {what}"
        for share, what in (
            (shares.unit, "on the circle"),
            (shares.outside, "outside"),
            (shares.negative, "negative"),
            (shares.complex, "complex"),
            (shares.zero, "zero"),
        )
        if share >= _SAID
    ]
    parts = parts or ["all positive, inside"]
    return ",\n".join(", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line))
