"""Which rule decides for which layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from statetrack.theory.diagonal import COMPLEX, REAL, positive, unit_circle
from statetrack.theory.facts import Facts, inner_group
from statetrack.theory.fixed import fixed_diagonal, shift
from statetrack.theory.householder import accumulated_keys, many_factors, one_factor, signed_decay
from statetrack.theory.universal import blocks, dense, nonlinear, selection, state_gated
from statetrack.theory.verdict import Depth

Rule: TypeAlias = Callable[[Facts], Depth]
"""Answers for an automaton whose state is not told by the last symbol alone. May raise ``TooLargeError``."""


def attention(facts: Facts) -> Depth:
    """Softmax attention at logarithmic precision lies in TC0."""
    theorem = (
        "Transformers of fixed depth and logarithmic precision compute functions in TC0, and non-solvable groups are NC1-hard."
    )
    source = "arXiv 2207.00729"
    for c in facts.inner:
        if not c.is_solvable:
            return Depth("never", None, "A non-solvable group (unless TC0 = NC1).", theorem, source, witness=inner_group(c))
    return Depth("unknown", None, "Not ruled out by TC0, and no weights are proved to be right at all lengths.", theorem, source)


def fixed_point(facts: Facts) -> Depth:
    """n iterates of a recurrence with a mixer: iterate l is a layer with eigenvalues in (0, 1) that reads iterate l - 1."""
    theorem = "At every fixed number of iterates an FP-RNN is a stack of layers with eigenvalues in (0, 1), which hold no group."
    if facts.images.is_aperiodic:
        return Depth("unknown", None, "Aperiodic, but the iterates share weights, and no weights are proved to be right.")
    reason = "Some word permutes states; at the fixed point itself nothing is proved."
    return Depth("never", None, reason, theorem, "derived, arXiv 2405.17394", witness=facts.periodic_word())


_DELTA = one_factor()
_RWKV7 = one_factor(regular=4, source="arXiv 2503.14456, arXiv 2502.10297")

RULES: dict[str, Rule] = {
    "aussm": unit_circle(convolution=True),
    "complex-diagonal": COMPLEX,
    "complex-kda": signed_decay,
    "deltanet": _DELTA,
    "deltaproduct": many_factors,
    "flash-pd-ssm": selection,
    "fp-rnn": fixed_point,
    "gated-deltanet": _DELTA,
    "gated-deltaproduct": many_factors,
    "gdn2": _DELTA,
    "kda": _DELTA,
    "linoss": fixed_diagonal,
    "lru": fixed_diagonal,
    "lstm": lambda facts: nonlinear("arXiv 1805.04908"),
    "mamba": positive,
    "mamba2": positive,
    "mamba3": COMPLEX,
    "negative-mamba": REAL,
    "path-attention": accumulated_keys,
    "pd-ssm": selection,
    "polarized-mamba": positive,
    "rnn": lambda facts: nonlinear("Minsky (1967)"),
    "rwkv7": _RWKV7,
    "s4d": fixed_diagonal,
    "s5": fixed_diagonal,
    "sd-ssm": dense,
    "shift": shift,
    "simple-aussm": unit_circle(convolution=False),
    "slice": blocks,
    "state-gated-rnn": state_gated,
    "transformer": attention,
}
