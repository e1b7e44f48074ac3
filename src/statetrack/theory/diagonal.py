"""Diagonal layers: the eigenvalues that the input can choose decide which groups a stack tracks.

    h_t = a(x_t, layers below) * h_{t-1} + b(x_t, layers below),   entries of a on or inside the unit circle

One layer's maps commute up to resets, so k layers track exactly the groups with a subnormal series of k factors of one kind: none
for ``a >= 0``, ``C_2^m`` for real a, any abelian group for complex a (arXiv 2603.01959). For other automata a group of words
bounds the depth from below. From above: each level of the holonomy decomposition is permuted or reset, a permutation by a
commuting group is a turn of its characters, and a reset is a small multiple of the old state plus a new code, which keeps the
state before the reset readable for the layer above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from statetrack.automata import Group, derived_series, elementary_series, p_group_prime
from statetrack.automata.arrays import IntArray
from statetrack.automata.holonomy import Component
from statetrack.automata.images import ImageClass
from statetrack.theory.facts import Facts, inner_group, named, series_witness
from statetrack.theory.verdict import Depth, between

DEFINITE = "States that shrink fast enough keep the last symbols as digits: one layer tracks every definite automaton."
CASCADE = "One layer for each step of the holonomy cascade is enough; groups of words bound the depth from below."


@dataclass(frozen=True)
class Diagonal:
    """The rule for diagonal layers with selective entries in a part of the closed unit disc.

    Attributes:
        allows: whether some number of layers tracks the group of a class of image sets.
        series: for such a group, a subnormal series with fewest factors of the kind that one layer tracks.
        only: what groups that it allows are.
        theorem: what stacks track.
        source: of the theorem.
        convolution: whether layers see several symbols at once, which can save a layer.
    """

    allows: Callable[[ImageClass], bool]
    series: Callable[[Group], list[IntArray]]
    only: str
    theorem: str
    source: str
    convolution: bool

    def __call__(self, facts: Facts) -> Depth:
        told = {"theorem": self.theorem, "source": self.source}
        for c in facts.inner:
            if not self.allows(c):
                return Depth(
                    "never", None, f"Words permute states by {named(c)}, not {self.only}.", **told, witness=inner_group(c)
                )
        if facts.is_group:
            terms = self.series(facts.group)
            reason = f"{named(facts.inner[0])} has such a series of length {len(terms) - 1} and no shorter one."
            return Depth("exact", len(terms) - 1, reason, **told, witness=series_witness(facts.group, terms))
        beside = beside_memory(facts, self)
        if beside is not None:
            return beside
        low = max((self.length(c.group) for c in facts.inner), default=1)
        high, reason = at_most(facts, lambda c: self.length(c.group))
        if low == 1 and not self.convolution and not facts.forgets_order:
            low, reason = 2, f"{reason} The order of symbols matters for good, as it cannot in one layer."
        source = f"derived; groups: {self.source}"
        return between(low, high, reason, theorem=CASCADE, source=source, witness=facts.cascade_witness())

    def length(self, group: Group) -> int:
        """Layers for a group that is allowed."""
        return len(self.series(group)) - 1


def beside_memory(facts: Facts, rule: Callable[[Facts], Depth]) -> Depth | None:
    """The depth for an automaton that the last symbols and a permutation automaton tell, None if it is not of that kind.

    Digits run beside what ``rule`` says of the permutation automaton.
    """
    if facts.split is None:
        return None
    permuted, memory = Facts(facts.split.permutations), facts.split.memory
    told = "last symbol" if memory == 1 else f"last {memory} symbols"
    if permuted.n_states == 1:
        return Depth("exact", 1, f"The {told} tell{'s' * (memory == 1)} the state.", DEFINITE, "derived", witness=facts.size)
    found = rule(permuted)
    return replace(found, reason=f"A group and the {told} tell the state. {found.reason}")


def at_most(facts: Facts, layers: Callable[[Component], int | None]) -> tuple[int | None, str]:
    """Layers that are enough for the cascade, and what to say about them; ``layers`` is that of ``Facts.levels_at_most``."""
    high, levels = facts.levels_at_most(layers), len(facts.cascade.levels)
    told = "one level" if levels == 1 else f"{levels} levels"
    return high, f"The cascade has {told}" + (
        f", for which {high} {'layer is' if high == 1 else 'layers are'} enough." if high else "."
    )


def aperiodic_only(c: ImageClass) -> bool:
    """No group is within reach."""
    return c.is_trivial


def two_groups(c: ImageClass) -> bool:
    """Only groups whose order is a power of two are within reach."""
    return c.is_trivial or (c.is_solvable and p_group_prime(c.group) == 2)


def solvable_groups(c: ImageClass) -> bool:
    """Only solvable groups are within reach."""
    return c.is_solvable


def sign_series(group: Group) -> list[IntArray]:
    """The iterated smallest subgroups with factor group ``C_2^m``."""
    return elementary_series(group, 2)


_POSITIVE = Diagonal(
    allows=aperiodic_only,
    series=derived_series,
    only="a trivial group",
    theorem="Layers with eigenvalues in [0, 1] track exactly the aperiodic (star-free) automata: no group at any depth.",
    source="arXiv 2405.17394, arXiv 2411.12537",
    convolution=True,
)
REAL = Diagonal(
    allows=two_groups,
    series=sign_series,
    only="a 2-group",
    theorem="k layers with real eigenvalues track exactly the groups with a subnormal series of k factors C_2^m.",
    source="derived from arXiv 2603.01959",
    convolution=True,
)
COMPLEX = Diagonal(
    allows=solvable_groups,
    series=derived_series,
    only="a solvable group",
    theorem="k complex diagonal layers track exactly the groups with a subnormal series of k abelian factors.",
    source="arXiv 2603.01959",
    convolution=False,
)


def positive(facts: Facts) -> Depth:
    """Eigenvalues in [0, 1]; what rules an automaton out is a word whose repetition never settles."""
    found = _POSITIVE(facts)
    if found.kind == "never":
        return replace(
            found, reason="Some word permutes states, so the automaton is not aperiodic.", witness=facts.periodic_word()
        )
    return found


def unit_circle(*, convolution: bool) -> Callable[[Facts], Depth]:
    """The rule for complex diagonal layers that never shrink a state.

    Bounded turns bring each state of a stack back close to itself, so that what follows an idempotent word cannot tell it from no
    word. That leaves a group and the symbols that are seen at once: the last one, or those of a convolution.

    Args:
        convolution: whether layers have one.
    """
    theorem = (
        "Layers on the unit circle whose states stay bounded track a group and the symbols that they see at once: no resets."
    )

    def rule(facts: Facts) -> Depth:
        if facts.is_group:
            return COMPLEX(facts)
        memory = 0 if facts.split is None else facts.split.memory
        if facts.split is None or (memory > 1 and not convolution):
            reason = (
                "Some word merges states that another one keeps apart." if facts.split is None else "Not without a convolution."
            )
            return Depth("never", None, reason, theorem, "derived", witness=facts.size)
        found = beside_memory(facts, COMPLEX) or COMPLEX(facts)
        return replace(found, needs=f"d_conv >= {memory}" if memory > 1 else "", theorem=f"{theorem} {found.theorem}")

    return rule
