"""How many layers of a kind track an automaton.

The question is about what some weights can do, not about what training finds: at every length, at finite precision, with any
function of the symbol and the layers below as gates and inputs, any function as readout, wide enough layers, options as good as
they come (``needs`` says which), and eigenvalues that are only approached counted as reached.
"""

from __future__ import annotations

from statetrack.automata import Automaton, TooLargeError
from statetrack.layers import layers
from statetrack.theory.facts import Facts, facts_of
from statetrack.theory.rules import RULES
from statetrack.theory.verdict import Depth


def depth(layer: str, automaton: Automaton) -> Depth:
    """Layers of one kind that track an automaton, with the reason.

    Args:
        layer: registered name of the layer.
        automaton: what is to be tracked; only its behaviour counts.

    Raises:
        UnknownNameError: no layer has this name.

    >>> from statetrack.automata import group, word_automaton
    >>> s4 = word_automaton(group("S4"), range(24))
    >>> [str(depth(layer, s4)) for layer in ("mamba", "aussm", "deltanet", "flash-pd-ssm")]
    ['never', '3', '2–4', '1']
    """
    layers.get(layer)
    return depth_from(layer, facts_of(automaton))


def depths(automaton: Automaton) -> dict[str, Depth]:
    """The depth for every registered layer, by name."""
    facts = facts_of(automaton)
    return {layer: depth_from(layer, facts) for layer in layers}


def depth_from(layer: str, facts: Facts) -> Depth:
    """As ``depth``, for facts that are at hand."""
    if facts.is_tokenwise:
        return Depth(
            "exact", 0, "The last symbol tells the state.", "The readout sees the symbol.", "derived", witness=facts.size
        )
    if layer not in RULES:
        return Depth("unknown", None, "The library has no theorem about this layer.")
    try:
        return RULES[layer](facts)
    except TooLargeError as error:
        return Depth("unknown", None, str(error))
