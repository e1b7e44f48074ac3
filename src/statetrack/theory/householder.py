"""Layers that multiply by (generalised) Householder matrices: the delta rule, its gated forms and its products.

    A_t = D_t (I - beta_n k_n k_n^T) ... (I - beta_1 k_1 k_1^T),   beta in [0, 2], D_t positive (near I to keep a state)

A symbol R of an orthogonal representation takes ``rank(R - I)`` factors. With one factor the spectrum is real, so repeating a
symbol has period 1 or 2, and longer periods take a second layer. With beta in [0, 1] (no ``negative_eigenvalues``) nothing but
aperiodic automata is tracked. Sources: arXiv 2411.12537, arXiv 2502.10297; reflections for one layer: arXiv 2609.24797.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statetrack.automata import TooLargeError, group_name
from statetrack.automata.holonomy import Component
from statetrack.automata.permutations import cycle_lengths
from statetrack.theory.diagonal import CASCADE, at_most, beside_memory
from statetrack.theory.facts import Facts
from statetrack.theory.representations import fewest_reflections, turns_space
from statetrack.theory.verdict import Depth, between
from statetrack.theory.witness import Representation

_ONE = "One Householder factor per token: one layer if symbols are reflections, two for groups of planes, four for every group."
_MANY = "One layer tracks a group in a representation where every symbol is a product of n_householder reflections."
_SPACE = "One layer tracks the finite groups of rotations of space, three layers every group; S_5 takes more than one."
_KEYS = "Softmax attention over a few first keys that reflections move tells where they are."
_TURNS = frozenset({"A4", "S4", "A5"})
"""The finite groups of rotations of space that are neither cyclic nor dihedral."""


def one_factor(*, regular: int | None = None, source: str = "arXiv 2411.12537, arXiv 2502.10297") -> Callable[[Facts], Depth]:
    """The rule for layers with one Householder factor per token.

    Args:
        regular: layers that are known to be enough for every automaton; None if it is only known that some number is.
        source: of the bounds.
    """

    def rule(facts: Facts) -> Depth:
        if not facts.is_group and (beside := beside_memory(facts, rule)):
            return beside
        if facts.images.is_aperiodic:
            high, reason = at_most(facts, lambda component: None)
            high = min(high, regular) if high and regular else high
            return between(1, high, reason, theorem=CASCADE, source="derived", witness=facts.cascade_witness())
        told: dict[str, Any] = {"theorem": _ONE, "source": source, "needs": "negative_eigenvalues"}
        slow = max(facts.letter_periods)
        low = 2 if slow > 2 else 1
        repeated = f"Repeating a symbol has period {slow}" if slow > 2 else "No symbol has a period above 2"
        if not facts.is_group:
            enough = "so many layers are" if regular else "some number of layers is"
            reason = f"{repeated}; {enough} enough for every regular language."
            return between(low, regular, reason, **told, witness=facts.cascade_witness())
        witness = reflections(facts)
        if witness is not None and witness.rank == 1:
            return Depth("exact", 1, "Every symbol is a reflection.", **told, witness=witness)
        planar = spatial(facts, frozenset())
        if planar:
            return between(low, 2, f"{repeated}; the group acts faithfully on planes.", **told, witness=planar)
        return between(low, 4, f"{repeated}; the group does not act faithfully on planes.", **told, witness=witness or facts.size)

    return rule


def many_factors(facts: Facts) -> Depth:
    """Layers with as many Householder factors per token as are asked for."""
    if facts.is_group:
        witness = reflections(facts)
        most = witness.rank if witness else max(step.size - len(cycle_lengths(step)) for step in facts.maps)
        least = 4 if all_of_a_symmetric_group(facts) else 2 if max(facts.letter_periods) > 2 else 1
        fewer = "fewer are not" if least == most else f"at least {least} are needed"
        reason = f"{most} reflections are enough for every symbol, {fewer}; with any number at most 4 layers."
        needs = f"negative_eigenvalues, n_householder >= {most}"
        source = "arXiv 2502.10297; fewest reflections: arXiv 2609.24797"
        return Depth("exact", 1, reason, _MANY, source, needs, witness or facts.size)
    if beside := beside_memory(facts, many_factors):
        return beside
    most = max((len(c.tiles) for level in facts.cascade.levels for c in level if not c.is_trivial), default=1)
    needs = "" if facts.images.is_aperiodic else f"negative_eigenvalues, n_householder >= {most}"
    high, reason = at_most(facts, lambda component: 1)
    witness_ = facts.cascade_witness()
    return between(1, high, reason, theorem=CASCADE, source="arXiv 2411.12537; derived", needs=needs, witness=witness_)


def signed_decay(facts: Facts) -> Depth:
    """Complex KDA: one factor after a diagonal of either sign, which makes rotations of a plane and of space."""
    source = "arXiv 2609.24797"
    if facts.is_group:
        witness = spatial(facts, _TURNS)
        if witness is not None:
            head = 4 if _needs_quaternions(facts, witness) else max(witness.degrees)
            reason = "Every symbol turns space or a plane, in each representation."
            return Depth("exact", 1, reason, _SPACE, source, f"d_head >= {head}", witness)
        witness = reflections(facts)
        if witness is not None and witness.rank == 1:
            return Depth("exact", 1, "Every symbol is a reflection.", _SPACE, source, witness=witness)
        low = 2 if all_of_a_symmetric_group(facts) else 1
        reason = "The group is not made of rotations of space" + (", and holds S_5." if low == 2 else ".")
        return between(low, 3, reason, theorem=_SPACE, source=source, witness=witness or facts.size)
    if beside := beside_memory(facts, signed_decay):
        return beside

    def layers(component: Component) -> int | None:  # A5 needs a state of full rank, which a reset would lose
        return 1 if spatial(component, _TURNS - {"A5"}) else None

    high, reason = at_most(facts, layers)
    witness_ = facts.cascade_witness()
    return between(1, high, reason, theorem=CASCADE, source=f"derived; groups: {source}", witness=witness_)


def accumulated_keys(facts: Facts) -> Depth:
    """PaTH attention: one factor per token moves all cached keys."""
    source = "arXiv 2505.16381; derived"
    if facts.is_group:
        witness = reflections(facts)
        if witness is not None and witness.rank == 1:
            return Depth("exact", 1, "Every symbol is a reflection.", _KEYS, source, "first tokens that write keys", witness)
    return Depth("unknown", None, "Proved only for groups whose symbols are reflections.", source=source)


def reflections(facts: Facts) -> Representation | None:
    """The fewest reflections for the symbols of a group, None if its representations are not known."""
    try:
        return fewest_reflections(facts.group, facts.letters)
    except TooLargeError:
        return None


def spatial(part: Facts | Component, names: frozenset[str]) -> Representation | None:
    """A faithful action on planes, or on spaces by groups called one of ``names``; None if none is known."""
    try:
        return turns_space(part.group, names=names)
    except TooLargeError:
        return None


def all_of_a_symmetric_group(facts: Facts) -> bool:
    """Whether the symbols are all elements of S_n, 5 <= n <= 7, and so hold the word problem of S_5 with all its elements."""
    try:
        everything = facts.letters.size == facts.group.order - 1
    except TooLargeError:
        return False
    return everything and group_name(facts.group) in ("S5", "S6", "S7")


def _needs_quaternions(facts: Facts, witness: Representation) -> bool:
    """Whether one of the rotation groups of space is that of the icosahedron, the only one that is not solvable."""
    return max(witness.degrees) == 3 and not facts.images.is_solvable
