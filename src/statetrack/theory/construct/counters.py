"""Stacks of counting layers that run the cascade of a solvable group.

    stream = [symbol, 1 | for each level: counters (cos, sin), its place, what it is told | class]

Level i of the cascade is layer i of the stack. Its phasor j turns by ``2 pi r_j / m_j`` where the level is told a coset with
residues r. A network after it (the block's feed-forward, or the layer's own decoder) turns phasors into bits (the place of the
level, what the next one is told), in a residual stream without norms. The last level is read by the head where a linear map can.

Letters: r = residues, m = moduli. Source: arXiv 2603.01959; the networks are the library's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import nn

from statetrack.automata import Automaton
from statetrack.automata.arrays import IntArray
from statetrack.models import ModelConfig
from statetrack.models.blocks import Block
from statetrack.theory.construct.cascade import Cascade, Level
from statetrack.theory.construct.decode import linear_scores
from statetrack.theory.construct.gates import Gates, Literal, any_of
from statetrack.theory.construct.tagger import ExactTagger, blank, put, with_options


@dataclass(frozen=True)
class Told:
    """What a layer reads from the stream.

    Attributes:
        level: the level it runs.
        columns: for each stream column that is a bit, the coset it stands for; where none is set, the level is told coset 0.
        one: the column that is always 1.
    """

    level: Level
    columns: tuple[tuple[int, int], ...]
    one: int


class Counter(Protocol):
    """How one kind of layer counts."""

    parts: int
    """Features of a phasor: 2 (cos, sin), or 1 (a sign)."""
    own_network: bool
    """Whether the layer ends in a network of its own, which reads the phasors' real, then imaginary parts, then the stream."""

    def options(self, cascade: Cascade) -> dict[str, Any]:
        """Options of the layer."""

    def width(self, level: Level) -> int:
        """Least width of a layer that runs the level."""

    def set(self, layer: Any, told: Told, output: int) -> None:
        """Set the weights of a blank layer, which adds its phasors to the stream at ``output`` if it has no network."""


class _Stream:
    """Which columns of the stream hold what.

    Args:
        n_symbols: of the automaton.
        n_outputs: of the automaton.
        cascade: the levels.
        parts: features of a phasor.
    """

    def __init__(self, n_symbols: int, n_outputs: int, cascade: Cascade, parts: int) -> None:
        self.size, levels = 0, cascade.levels
        self.tokens, self.one = self._take(n_symbols), self._take(1)[0]
        self.phasors = [self._take(parts * len(level.moduli)) for level in levels]
        self.places = [self._take(level.n_classes) for level in levels[:-1]]
        self.told = [range(0), *(self._take(level.n_classes - 1) for level in levels[1:])]  # coset 0 has no bit
        self.classes = self._take(n_outputs)

    def _take(self, n: int) -> range:
        self.size += n
        return range(self.size - n, self.size)


def counters(
    layer: str, automaton: Automaton, symbols: IntArray, cascade: Cascade, counter: Counter, options: dict[str, Any]
) -> ExactTagger:
    """The stack for an automaton whose symbol ``i`` multiplies by element ``symbols[i]``; the state is ``y^-1`` of the start."""
    levels, last = cascade.levels, len(cascade.levels) - 1
    stream = _Stream(automaton.n_symbols, automaton.n_outputs, cascade, counter.parts)
    outputs = automaton.outputs[cascade.group.elements[cascade.group.inverses, automaton.start]]
    held = cascade.places()
    scores = linear_scores(_features(cascade, held, counter.parts), outputs, automaton.n_outputs)

    own = max(len(level.moduli) for level in levels) if counter.own_network else 0
    networks = [Gates() for _ in levels]
    for i, gates in enumerate(networks):
        seen = _seen(stream.phasors[i], counter.parts, len(levels[i].moduli), own)
        above = [[any_of([2 * own + c]) for c in columns] for columns in stream.places[:i]]
        here = [_place(levels[i], coset, seen) for coset in range(levels[i].n_classes)]
        if i < last:
            tokens = [2 * own + c for c in stream.tokens]
            _tell(gates, cascade.told(symbols, i + 1), tokens, [*([[c] for c in row] for row in above), here], stream.told[i + 1])
            for coset, column in enumerate(stream.places[i]):
                gates.conjunction(here[coset], column)
        elif scores is None:
            for row, label in zip(held, outputs.tolist(), strict=True):
                gates.conjunction([*(above[j][row[j]] for j in range(i)), *here[row[i]]], stream.classes[label])
        elif own:
            for part, column in zip(itertools.chain(*seen), stream.phasors[i], strict=True):
                gates.copy(part, column)

    width = max(stream.size, *(counter.width(level) for level in levels))
    hidden = -(-max(network.size for network in networks) // width)
    fixed = counter.options(cascade) | ({"d_hidden": max(hidden, 1)} if own else {})
    feedforward = 0 if own else hidden
    settings = with_options(layer, fixed, options)
    config = ModelConfig(width, last + 1, norm="none", residual=True, feedforward=feedforward, layer=settings)
    model = ExactTagger(layer, automaton, config)
    embedding = np.eye(automaton.n_symbols, width)
    embedding[:, stream.one] = 1
    put(model.embedding.weight, embedding)
    told = [dict(zip(bits, range(1, len(bits) + 1), strict=True)) for bits in stream.told]
    told[0] = dict(zip(stream.tokens, levels[0].classes[symbols].tolist(), strict=True))
    for i, (block, gates) in enumerate(zip(model.blocks, networks, strict=True)):
        assert isinstance(block, Block)
        blank(block.layer)
        counter.set(block.layer, Told(levels[i], tuple(told[i].items()), stream.one), stream.phasors[i][0])
        network = block.layer.decoder if own else block.feedforward
        if isinstance(network, nn.Sequential):
            gates.write(network)
    head = np.zeros((automaton.n_outputs, width))
    if scores is None:
        head[:, stream.classes] = np.eye(automaton.n_outputs)
    else:
        head[:, [*stream.phasors[-1], *itertools.chain(*stream.places)]] = scores.weight
        put(model.head.bias, scores.bias)
    put(model.head.weight, head)
    return model


def _tell(
    gates: Gates,
    told: tuple[IntArray, IntArray],
    tokens: Sequence[int],
    places: Sequence[Sequence[list[Literal]]],
    outputs: Sequence[int],
) -> None:
    """Gates for the coset that the next level multiplies by: one for each place of the levels so far and each coset but 0."""
    for row, cosets in zip(*told, strict=True):
        where = [literal for level, place in zip(places, row.tolist(), strict=True) for literal in level[place]]
        for i, output in enumerate(outputs):
            readers = np.flatnonzero(cosets == i + 1).tolist()
            if readers:
                gates.conjunction([any_of([tokens[symbol] for symbol in readers]), *where], output)


def phase(level: Level, part: int, coset: int, factor: int) -> float:
    """Feature of a phasor when the level holds a coset: its cosine (part 0) or sine (part 1)."""
    angle = 2 * math.pi * level.residues[coset, factor] / level.moduli[factor]
    return math.sin(angle) if part else math.cos(angle)


def _features(cascade: Cascade, held: IntArray, parts: int) -> np.ndarray[Any, Any]:
    """``(order, F)``: phasors of the last level, then the bits of the others, for every element."""
    last = cascade.levels[-1]
    phasors = [
        [phase(last, part, coset, j) for j in range(len(last.moduli)) for part in range(parts)] for coset in held[:, -1].tolist()
    ]
    bits = [np.eye(level.n_classes)[held[:, i]] for i, level in enumerate(cascade.levels[:-1])]
    return np.concatenate([np.array(phasors), *bits], axis=1)


def _seen(phasors: range, parts: int, n_factors: int, own: int) -> list[list[int]]:
    """Input columns of a network, for each factor: its cosine and, where there is one, its sine.

    Args:
        phasors: their columns in the stream.
        parts: features of a phasor.
        n_factors: phasors that count.
        own: phasors of the layer if the network is its own and reads them first, else 0.
    """
    if own:
        return [[j, own + j] for j in range(n_factors)]
    return [[phasors[parts * j + part] for part in range(parts)] for j in range(n_factors)]


def _place(level: Level, coset: int, seen: Sequence[Sequence[int]]) -> list[Literal]:
    """That a level holds a coset: a literal for each factor, 1 at the right residue and at most 0 at others."""
    literals = []
    for j, (columns, m) in enumerate(zip(seen, level.moduli, strict=True)):
        if m == 1:
            continue
        nearest = math.cos(2 * math.pi / m)
        weights = tuple((c, phase(level, part, coset, j) / (1 - nearest)) for part, c in enumerate(columns))
        literals.append(Literal(weights, -nearest / (1 - nearest)))
    return literals
