"""Layers that track every automaton in one layer: column-one-hot, dense and block transitions, nonlinear recurrences."""

from __future__ import annotations

from statetrack.automata import TooLargeError
from statetrack.theory.facts import Facts
from statetrack.theory.representations import smallest_blocks
from statetrack.theory.verdict import Depth


def selection(facts: Facts) -> Depth:
    """PD-SSM and Flash PD-SSM: a symbol selects its own transition table."""
    size = facts.size
    needs = f"d_state >= {size.n_states}, dictionary_size >= {size.n_letters}"
    if not facts.is_group:
        needs += ', orientation="column"'
    theorem = "A column-one-hot matrix is the table of a symbol: one layer with as many states tracks any automaton."
    return Depth("exact", 1, "One state for each state.", theorem, "arXiv 2509.22284", needs, size)


def dense(facts: Facts) -> Depth:
    """SD-SSM: a symbol selects a dense matrix with normalised columns, of which a transition table is one."""
    size = facts.size
    needs = f"d_state >= {size.n_states}, dictionary_size >= {size.n_letters}"
    theorem = "A transition table is a matrix with columns of norm 1: one layer with as many states tracks any automaton."
    return Depth("exact", 1, "One state for each state.", theorem, "arXiv 2412.19350", needs, size)


def blocks(facts: Facts) -> Depth:
    """SLiCE: every symbol has its own free matrix in blocks."""
    theorem = "A free block is the table of a symbol, or its matrix in a representation of a group."
    told = {"theorem": theorem, "source": "arXiv 2505.17761; derived"}
    if facts.is_group:
        try:
            found = smallest_blocks(facts.group)
        except TooLargeError:
            pass
        else:
            reason = "The group has faithful real representations of such degrees."
            return Depth("exact", 1, reason, **told, needs=f"block_size >= {max(found.degrees)}", witness=found)
    return Depth("exact", 1, "One state for each state.", **told, needs=f"block_size >= {facts.n_states}", witness=facts.size)


def nonlinear(source: str) -> Depth:
    """Recurrent networks whose update is a network of the state."""
    theorem = "A nonlinear recurrence computes any function of state and symbol: one layer tracks any automaton."
    return Depth("exact", 1, "Every regular language.", theorem, source)


def state_gated(facts: Facts) -> Depth:
    """A gate that keeps or replaces units, and a candidate that is affine in the state.

    A plane for each symbol turns when the symbol is read and stays otherwise, which counts symbols modulo their orders.
    """
    theorem = "Gates that open or close for a symbol count symbols modulo their orders, or hold what was set last."
    if facts.is_group and facts.group.is_abelian:
        return Depth("exact", 1, "The numbers of symbols, modulo their orders, tell the state.", theorem, "derived")
    if facts.is_reset:
        return Depth("exact", 1, "Every symbol keeps the state or sets it.", theorem, "derived")
    return Depth("unknown", None, "Proved only for abelian groups and for symbols that keep or set the state.")
