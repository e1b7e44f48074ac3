"""Looking for a proof: into which pieces to cut a model, and how much of the recent past to tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from statetrack.analysis.certificate.components import Component
from statetrack.analysis.certificate.intervals import Interval
from statetrack.analysis.certificate.reach import Invariant
from statetrack.analysis.certificate.tail import Tail
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.analysis.language import Specification
from statetrack.errors import InvalidInputError
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]
Groups = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class Limits:
    """How hard to look for a proof.

    Attributes:
        nodes: most states followed of one piece.
        history: most tokens of the recent past that boxes are told apart by.
    """

    nodes: int = 30_000
    history: int = 4

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.history < 0:
            raise InvalidInputError(
                f"At least 1 state has to be followed, got {self.nodes}, and {self.history} tokens of the past."
            )


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Proof:
    """Invariants of all pieces on which every answer is right.

    Attributes:
        history: number of recent tokens told apart.
        pieces: the invariants.
        margin: the least lead of a right class over another, after all rounding.
        weakest: where that is.
    """

    history: int
    pieces: tuple[Invariant, ...]
    margin: float
    weakest: str

    def checked(self) -> Proof:
        """Itself, if it proves anything. Raises ``Undecided`` otherwise."""
        if not self.margin > 0:
            raise Undecided(f"{self.weakest}, the bounds of the scores do not tell the right class from another")
        return self


def prove(model: Tagger, specification: Specification, limits: Limits = DEFAULT_LIMITS) -> Proof:
    """A proof that a model gives the right answers on every word.

    Raises:
        Undecided: none was found; the message says what was missing.
    """
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise Undecided(f"the weight {name} is not finite")
    whole = Component(model)
    search = _Search(model, limits, Tail(model))
    heads = whole.layers[0].layer.n_heads
    separable = whole.separable and search.tail.direct and heads > 1
    if whole.finite:
        proof = search.merge(specification, heads) if separable else search.try_groups(specification, 0, (None,))
        return proof.checked()
    groups: Groups = tuple((head,) for head in range(heads)) if separable else (None,)
    for history in range(limits.history + 1):
        proof = search.try_groups(specification.remembering(history), history, groups)
        if proof.margin > 0:
            break
    return proof.checked()


class _Search:
    def __init__(self, model: Tagger, limits: Limits, tail: Tail) -> None:
        self.model, self.limits, self.tail = model, limits, tail
        self.known: dict[tuple[int, tuple[int, ...] | None], Invariant | Undecided] = {}

    def try_groups(self, specification: Specification, history: int, groups: Groups) -> Proof:
        """A proof from these pieces; its margin is not positive where it fails."""
        pieces = tuple(self._invariant(specification, history, heads) for heads in groups)
        return Proof(history, pieces, *least_lead(self.tail, specification, pieces))

    def merge(self, specification: Specification, n_heads: int) -> Proof:
        """Head by head if that suffices; otherwise heads that only together know the answer are followed together."""
        best = self.try_groups(specification, 0, tuple((head,) for head in range(n_heads)))
        while not best.margin > 0 and len(best.pieces) > 1:
            tried, reason = [], Undecided("")
            groups = [piece.component.heads or () for piece in best.pieces]
            for pair in combinations(groups, 2):
                if self._product(best, pair) > self.limits.nodes:
                    reason = Undecided(f"the bounds do not tell, and heads {pair[0]} and {pair[1]} have too many states together")
                    continue
                merged = [group for group in groups if group not in pair] + [tuple(sorted(pair[0] + pair[1]))]
                try:
                    tried.append(self.try_groups(specification, 0, tuple(merged)))
                except Undecided as found:
                    reason = found
            if not tried:
                raise Undecided(f"{best.weakest}, {reason}")
            best = max(tried, key=lambda proof: proof.margin)
        return best

    @staticmethod
    def _product(proof: Proof, pair: tuple[tuple[int, ...], ...]) -> int:
        """How many states two groups may have together."""
        n = len(proof.pieces[0].grammar.moves)
        one, other = (np.bincount(p.states, minlength=n) for p in proof.pieces if p.component.heads in pair)
        return int(one @ other)

    def _invariant(self, specification: Specification, history: int, heads: tuple[int, ...] | None) -> Invariant:
        """The invariant of a group, remembered, as is the failure to find one."""
        if (history, heads) not in self.known:
            try:
                found = Invariant(Component(self.model, heads), specification)
                found.close(self.limits.nodes)
                self.known[history, heads] = found
            except Undecided as reason:
                self.known[history, heads] = reason
        known = self.known[history, heads]
        if isinstance(known, Undecided):
            raise known
        return known


def least_lead(tail: Tail, specification: Specification, pieces: tuple[Invariant, ...]) -> tuple[float, str]:
    """The least lead of a right class over all moves that are asked about, and where it is."""
    if len(pieces) == 1:
        return _least_lead_of_nodes(tail, specification, pieces[0])
    source, token, after = specification.edges(np.arange(len(specification.moves)))
    asked = specification.answers[after] >= 0
    source, token, after = source[asked], token[asked], after[asked]
    case = np.full(specification.moves.shape, -1)
    case[source, token] = np.arange(len(source))
    classes = specification.answers[after]
    z = pieces[0].component.constant(token)
    projected = tail.project(z, classes)
    for piece in pieces:
        lead, low, high = (np.full(a.shape, np.inf) for a in (projected, z.lo, z.lo))
        for nodes, tokens, _, step in piece.steps(np.arange(len(piece.states))):
            rows = case[piece.states[nodes], tokens]
            used = np.flatnonzero(rows >= 0)
            rows, own = rows[used], step.z[used]
            np.minimum.at(lead, rows, tail.project(own, classes[rows]))
            np.minimum.at(low, rows, own.lo)
            np.minimum.at(high, rows, -own.hi)
        projected = projected + lead
        z = Interval(z.lo + low, z.hi - high)
    reached = np.isfinite(z.lo).all(axis=-1)
    leads = tail.leads(projected[reached], z[reached], classes[reached]).min(axis=-1)
    worst = int(leads.argmin())
    return float(leads[worst]), _place(specification, int(source[reached][worst]), int(token[reached][worst]))


def _least_lead_of_nodes(tail: Tail, specification: Specification, piece: Invariant) -> tuple[float, str]:
    least, place = np.inf, ""
    for nodes, tokens, after, step in piece.steps(np.arange(len(piece.states))):
        asked = np.flatnonzero(specification.answers[after] >= 0)
        if not len(asked):
            continue
        classes = specification.answers[after[asked]]
        z = step.z[asked] + piece.component.constant(tokens[asked])
        leads = tail.leads(tail.project(z, classes), z, classes).min(axis=-1)
        worst = int(leads.argmin())
        if leads[worst] < least:
            least = float(leads[worst])
            place = _place(specification, int(piece.states[nodes[asked[worst]]]), int(tokens[asked[worst]]))
    return least, place


def _place(specification: Specification, state: int, token: int) -> str:
    asked = specification.answers[specification.moves[state, token]]
    return f"after token {token} in state {state} of the specification, which asks for class {asked}"
