"""Layers whose transition is the same for every token: S4D, S5, LRU, LinOSS and shift registers.

    h_t = A h_{t-1} + b(x_t)

What such a layer forgets, it forgets at a fixed pace, and what it keeps it adds up; a bounded state that keeps anything turns as
a clock. A stack therefore knows the first symbols, the last ones and the position, and words of equal length cannot permute
states differently. Sources: arXiv 2411.12537 for parity at any depth, arXiv 2603.01959 for groups in one layer; the rest is
derived.
"""

from __future__ import annotations

from statetrack.theory.diagonal import beside_memory
from statetrack.theory.facts import Facts
from statetrack.theory.verdict import Depth

_SOURCE = "arXiv 2411.12537, arXiv 2603.01959; derived"
_THEOREM = "Stacks of fixed transitions track no automaton in which words of equal length permute states differently."
_CLOCK = "A fixed turn by 2 pi / m counts positions modulo m (in the limit of modulus 1)."
_REGISTER = "A register of n cells holds the last n symbols."


def fixed_diagonal(facts: Facts) -> Depth:
    """Fixed eigenvalues in the unit disc."""
    if not facts.images.is_clocked:
        return _never(facts)
    found = None if facts.is_group else beside_memory(facts, _clock)
    return found or _clock(facts)


def shift(facts: Facts) -> Depth:
    """A fixed shift register."""
    if not facts.images.is_clocked:
        return _never(facts)
    order = facts.images.definite_order
    if order is None:
        return Depth("unknown", None, 'Never with wrap="drop"; open for registers that are cyclic or hold.')
    return Depth("exact", 1, f"The last {order} symbols tell the state.", _REGISTER, "derived", f"d_state >= {order}", facts.size)


def _clock(facts: Facts) -> Depth:
    if facts.is_group and facts.is_unary:
        return Depth("exact", 1, "The position alone tells its state.", _CLOCK, "arXiv 2601.19467", witness=facts.size)
    return Depth("unknown", None, "Neither last symbols and a clock, nor ruled out by words of equal length.")


def _never(facts: Facts) -> Depth:
    reason = "Words of equal length permute states differently."
    return Depth("never", None, reason, _THEOREM, _SOURCE, witness=facts.periodic_word())
