"""What is proved about a layer and an automaton: how many layers track it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from statetrack.theory.witness import Witness, witness_dict

Kind = Literal["exact", "bounds", "never", "unknown"]


@dataclass(frozen=True)
class Depth:
    """How many layers of one kind track an automaton at every length and finite precision.

    Attributes:
        kind: ``"exact"``: so many are enough and fewer are not; ``"bounds"``: between two numbers; ``"never"``: no number of
            layers does; ``"unknown"``: nothing is proved.
        layers: a number; a pair (at least, at most) for bounds, the second None if only finite depth is proved; else None.
        reason: why, about this automaton.
        theorem: the general statement.
        source: of the theorem.
        needs: options that the layer needs for it.
        witness: what to check it by.
    """

    kind: Kind
    layers: int | tuple[int, int | None] | None
    reason: str
    theorem: str = ""
    source: str = ""
    needs: str = ""
    witness: Witness | None = None

    def __str__(self) -> str:
        if isinstance(self.layers, int):
            return str(self.layers)
        if self.layers is None:
            return "never" if self.kind == "never" else "?"
        low, high = self.layers
        return f"{low}\u2013{high}" if high else f"{low} or more"

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "layers": list(self.layers) if isinstance(self.layers, tuple) else self.layers,
            "kind": self.kind,
            "reason": self.reason,
            "theorem": self.theorem,
            "source": self.source,
            "needs": self.needs,
            "witness": witness_dict(self.witness) if self.witness else None,
        }


def between(low: int, high: int | None, reason: str, **rest: Any) -> Depth:
    """A depth within bounds, exact where they meet."""
    if low == high:
        return Depth("exact", low, reason, **rest)
    return Depth("bounds", (low, high), reason, **rest)


def theorem_sources(found: Iterable[Depth]) -> dict[str, str]:
    """Each theorem behind some depths, in the order in which they come, with all its sources."""
    sources: dict[str, set[str]] = {}
    for depth in found:
        if depth.theorem:
            sources.setdefault(depth.theorem, set()).update(re.findall(r"arXiv [\d.]+|derived|\w+ \(\d+\)", depth.source))
    return {theorem: ", ".join(sorted(sources[theorem])) for theorem in sources}
