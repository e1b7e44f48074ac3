"""The table of all layers: structure, spectrum, what each tracks per depth, cost and source.

``python -m statetrack.report.layer_table FILE`` writes it for the documentation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from statetrack.layers import Claim, layers
from statetrack.training.files import write_text

COLUMNS = ("Layer", "Structure", "Spectrum", "One layer tracks", "Stacks track", "Parity", "State update", "Source")


def layer_rows(*, sources: bool = True) -> list[tuple[str, ...]]:
    """One row of texts for each registered layer, in the order of ``COLUMNS``; with or without the sources of the claims."""
    rows: list[tuple[str, ...]] = []
    for name in layers:
        traits = layers.get(name).traits
        parity = {True: "yes", False: "no", None: "open"}[traits.parity]
        claims = [_told(claim) if sources else str(claim) for claim in (traits.one_layer, traits.deeper)]
        rows.append((name, traits.structure, traits.spectrum, *claims, parity, traits.cost, traits.source))
    return rows


def layer_markdown() -> str:
    """The table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{row[0]}`", *row[1:])) + " |" for row in layer_rows()]
    return "\n".join(lines) + "\n"


def _told(claim: Claim) -> str:
    return f"{claim} ({claim.source})" if claim.source else str(claim)


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), layer_markdown())
