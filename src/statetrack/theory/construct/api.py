"""One entry to all constructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statetrack.automata import Automaton, derived_series, elementary_series, minimise
from statetrack.errors import InvalidInputError
from statetrack.layers import layers
from statetrack.theory.construct.cascade import cascade
from statetrack.theory.construct.counters import Counter, counters
from statetrack.theory.construct.dense import dense
from statetrack.theory.construct.matrices import blocks, householder, signed
from statetrack.theory.construct.nonlinear import nonlinear
from statetrack.theory.construct.resets import resets
from statetrack.theory.construct.selection import selection
from statetrack.theory.construct.signs import NegativeMambaCounter
from statetrack.theory.construct.tagger import ExactTagger
from statetrack.theory.construct.turning import AUSSMCounter, ComplexDiagonalCounter, SimpleAUSSMCounter
from statetrack.theory.construct.words import permutation_group
from statetrack.theory.depth import depth

Builder = Callable[[str, Automaton, dict[str, Any]], ExactTagger]


def construct(layer: str, automaton: Automaton, **options: Any) -> ExactTagger:
    """Weights, computed and not trained, with which a stack of layers emits the outputs of an automaton after every prefix.

    The stack is as deep as ``statetrack.theory.depth`` says is needed. A tagger for training, made from its ``.config``, loads
    its state dict.

    Args:
        layer: registered name of the layer.
        automaton: what is tracked; the tagger's classes are its outputs.
        options: of the layer, as far as the construction leaves them open (``backend``).

    Raises:
        UnknownNameError: no layer has this name.
        InvalidInputError: no depth is enough, the library has no construction for the pair, or an option does not fit.

    >>> import torch
    >>> from statetrack.automata import group, word_automaton
    >>> model = construct("flash-pd-ssm", word_automaton(group("S3"), range(6)))
    >>> scores, _ = model(torch.tensor([[1, 3, 5]]))
    >>> scores.argmax(-1).tolist(), model.automaton.output([1, 3, 5]).tolist()
    ([[1, 5, 0]], [1, 5, 0])
    """
    layers.get(layer)
    small = minimise(automaton)
    verdict = depth(layer, small)
    if verdict.kind == "never":
        raise InvalidInputError(
            f"No number of {layer} layers tracks this automaton: {verdict.reason} {verdict.theorem} ({verdict.source})"
        )
    if layer not in _BUILDERS:
        raise InvalidInputError(f"The library has no construction for {layer}; it has some for {', '.join(sorted(_BUILDERS))}.")
    return _BUILDERS[layer](layer, small, options).eval()


def _counting(counter: Counter, prime: int | None = None) -> Builder:
    def build(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
        group, maps = permutation_group(automaton)
        series = derived_series(group) if prime is None else elementary_series(group, prime)
        if series[-1].size != 1:
            raise InvalidInputError(f"The group of the symbols has no series that {layer} layers can run.")
        series = series if len(series) > 1 else [*series, series[-1]]  # a group of one element still takes a layer
        return counters(layer, automaton, group.inverses[maps], cascade(group, series), counter, options)

    return build


_BUILDERS: dict[str, Builder] = {
    "aussm": _counting(AUSSMCounter()),
    "complex-diagonal": _counting(ComplexDiagonalCounter()),
    "complex-kda": signed,
    "deltanet": householder,
    "deltaproduct": householder,
    "flash-pd-ssm": selection,
    "mamba": resets,
    "mamba2": resets,
    "negative-mamba": _counting(NegativeMambaCounter(), prime=2),
    "pd-ssm": selection,
    "rnn": nonlinear,
    "sd-ssm": dense,
    "simple-aussm": _counting(SimpleAUSSMCounter()),
    "slice": blocks,
}
