"""What backs a verdict: the part of an automaton that a reader can check by hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Series:
    """A subnormal series of a group, from the group down to the trivial one.

    Attributes:
        groups: what its terms are called.
        factors: what the factor groups of neighbours are called.
    """

    groups: tuple[str, ...]
    factors: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' > '.join(self.groups)}, factors {', '.join(self.factors)}"


@dataclass(frozen=True)
class PeriodicWord:
    """A word whose repetition never settles.

    Attributes:
        word: its symbols.
        period: the least number of further repetitions that bring every state back.
        n_states: number of states that it permutes.
    """

    word: tuple[str, ...]
    period: int
    n_states: int

    def __str__(self) -> str:
        return f"the word {' '.join(self.word)} permutes {self.n_states} states with period {self.period}"


@dataclass(frozen=True)
class InnerGroup:
    """A group with which words permute some states.

    Attributes:
        group: what it is called.
        n_states: number of states that it permutes.
        core: what the last term of its derived series is called; C1 for a solvable group.
    """

    group: str
    n_states: int
    core: str

    def __str__(self) -> str:
        core = "" if self.core in ("C1", self.group) else f", with {self.core} inside"
        return f"words permute {self.n_states} states by {self.group}{core}"


@dataclass(frozen=True)
class Representation:
    """Faithful real matrices for a group, in blocks.

    Attributes:
        degrees: sizes of the irreducible representations that together are faithful.
        rank: the most dimensions of one of them in which a symbol is not the identity (or minus it, where that tells as much);
            None where it does not matter.
    """

    degrees: tuple[int, ...]
    rank: int | None = None

    def __str__(self) -> str:
        moved = "" if self.rank is None else f", where symbols move at most {self.rank} dimensions"
        return f"real representations of degree {', '.join(map(str, self.degrees))}{moved}"


@dataclass(frozen=True)
class Cascade:
    """The levels of the holonomy decomposition.

    Attributes:
        levels: for each level, the top one first, what its groups are called; empty for a level that is only reset.
    """

    levels: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        told = [" x ".join(level) or "resets" for level in self.levels]
        return f"holonomy levels: {', '.join(told)}"


@dataclass(frozen=True)
class Size:
    """The size of the minimal automaton.

    Attributes:
        n_states: number of states.
        n_letters: number of symbols that act differently.
    """

    n_states: int
    n_letters: int

    def __str__(self) -> str:
        return f"{self.n_states} states, {self.n_letters} different symbols"


Witness: TypeAlias = Series | PeriodicWord | InnerGroup | Representation | Cascade | Size


def witness_dict(witness: Witness) -> dict[str, Any]:
    """A witness as JSON values, with the name of its kind."""
    return {"kind": type(witness).__name__, **asdict(witness)}
