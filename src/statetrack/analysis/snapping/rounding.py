"""Two ways from a trained model to exact weights.

By places: the selections carry the automaton. Their maps stay, ``D`` becomes 1, and the readout of each place is what the trained
one read there on average. Heads that carry nothing stay where they are. Everything else is as trained.

By states: values carry it, such as phases. The automaton that was learnt from the answers becomes the maps of one head, and the
readout of each state is what the trained one read in that state on average.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from statetrack.analysis.extraction import skeleton
from statetrack.analysis.extraction.heads import Heads
from statetrack.analysis.language import Grammar
from statetrack.analysis.snapping.weights import (
    columns,
    exact_model,
    freeze,
    layer_inputs,
    route_by_token,
    sharpen,
)
from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.layers.flash_pd_ssm import FlashPDSSM
from statetrack.layers.readouts import parts
from statetrack.models import Tagger
from statetrack.training import TrainConfig

_TIED = 0.1
"""A route that leads by less is made clear."""


def round_places(
    config: TrainConfig, model: Tagger, grammar: Grammar, heads: Heads, words: np.ndarray
) -> tuple[TrainConfig, Tagger]:
    """Round the heads that carry the automaton and freeze the others.

    Args:
        config: of the trained model.
        model: the trained model.
        grammar: the words.
        heads: those that carry the automaton, as layer and head; each holds one entry at a time.
        words: ``(n, L)`` over which readouts are averaged.

    Raises:
        InvalidInputError: a head that holds several entries, or a readout that is not linear.
    """
    readings = _average_by_place(model, grammar, words)
    n_read = int((grammar.walk(words) >= 0).sum())
    new_config, exact = exact_model(config, model)
    for i, layer in enumerate(cast(list[DictionaryLayer], exact.layers)):
        for head in range(layer.n_heads):
            means, visited, average = readings[i][head]
            if (i, head) not in heads:
                freeze(layer, head, average)
                continue
            if visited.sum() < n_read:
                raise InvalidInputError(f"Head {head} of layer {i + 1} holds several entries at once and cannot be rounded.")
            columns(layer, head)[...] = torch.where(visited > 0, means.T, columns(layer, head).double()).to(means.dtype)
            if isinstance(layer, FlashPDSSM):
                sharpen(layer, head)
                if i == 0:
                    _clear_routes(exact, layer, head, grammar)
    return new_config, exact


def _clear_routes(model: Tagger, layer: FlashPDSSM, head: int, grammar: Grammar) -> None:
    u = layer_inputs(model, grammar.tokens)
    rows = layer.router.weight.detach().double().view(layer.n_heads, layer.dictionary_size, -1)[head]
    best = (u @ rows.T).topk(2, dim=-1)
    if float((best.values[:, 0] - best.values[:, 1]).min()) < _TIED and torch.linalg.matrix_rank(u) == len(u):
        route_by_token(layer, head, u, best.indices[:, 0])


def _average_by_place(model: Tagger, grammar: Grammar, words: np.ndarray) -> list[list[tuple[Tensor, Tensor, Tensor]]]:
    """For each layer and head: average readout ``(N, E)`` at every place, how often ``(N,)`` it was there and nowhere else, and
    the average ``(E,)`` over all tokens."""
    layers = skeleton.pd_layers(model)
    found = [[_Averages(layer, head) for head in range(layer.n_heads)] for layer in layers]
    phases = grammar.walk(words)
    position = skeleton.start(model).rows(np.zeros(len(words), dtype=np.int64))
    for t in range(words.shape[1]):
        _, position = skeleton.advance(model, position, words[:, t])
        inside = torch.from_numpy(phases[:, t] >= 0)
        for heads, state, mask in zip(found, position.states, position.masks, strict=True):
            for head in heads:
                head.add(state.h[inside], mask[inside])
    return [[head.result() for head in heads] for heads in found]


class _Averages:
    """Readouts of one head, averaged by place."""

    def __init__(self, layer: DictionaryLayer, head: int) -> None:
        self.layer, self.head = layer, head
        self.sums = torch.zeros(layer.d_state, layer.d_model, dtype=torch.float64)
        self.counts = torch.zeros(layer.d_state, dtype=torch.float64)
        self.total, self.n = torch.zeros(layer.d_model, dtype=torch.float64), 0

    def add(self, h: Tensor, mask: Tensor) -> None:
        """States ``(B, H, N)`` with the entries that hold something."""
        read, mask = _reading(self.layer, h, self.head), mask[:, self.head]
        single = mask.sum(-1) == 1
        place = mask[single].to(torch.uint8).argmax(-1)
        self.sums.index_add_(0, place, read[single])
        self.counts.index_add_(0, place, torch.ones(len(place), dtype=torch.float64))
        self.total, self.n = self.total + read.sum(0), self.n + len(read)

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """Averages by place, counts, and the average over all tokens."""
        return self.sums / self.counts.clamp(min=1).unsqueeze(-1), self.counts, self.total / max(1, self.n)


def _reading(layer: DictionaryLayer, h: Tensor, head: int | None = None) -> Tensor:
    """What the trained readout reads from one head (or all) of states ``(B, H, N)``, without its bias: ``(B, E)``."""
    if head is not None:
        h = torch.zeros_like(h).index_copy_(1, torch.tensor([head]), h[:, head : head + 1])
    weight = cast(nn.Linear, layer.readout.out).weight.detach().double()
    return parts(h.to(torch.complex128 if h.is_complex() else torch.float64)) @ weight.T


def round_states(
    config: TrainConfig, model: Tagger, grammar: Grammar, automaton: Automaton, words: np.ndarray
) -> tuple[TrainConfig, Tagger]:
    """Write an automaton over ``grammar.tokens`` into the maps of one head.

    Raises:
        InvalidInputError: more than one layer, a readout that is not linear, or embeddings that are not independent.
    """
    (layer, *more) = skeleton.pd_layers(model)
    if more:
        raise InvalidInputError("Only a model with a single layer can be rounded by its states.")
    total = torch.zeros(automaton.n_states, layer.d_model, dtype=torch.float64)
    count = torch.zeros(automaton.n_states, dtype=torch.float64)
    phases = grammar.walk(words)
    symbols = np.minimum(np.searchsorted(grammar.tokens, words), automaton.n_symbols - 1)
    visited = automaton.run(symbols)
    states = model.initial_state(len(words))
    with torch.no_grad():
        for t in range(words.shape[1]):
            _, states = model.step(torch.from_numpy(words[:, t]), states)
            inside = torch.from_numpy(phases[:, t] >= 0)
            place = torch.from_numpy(visited[:, t])[inside]
            total.index_add_(0, place, _reading(layer, states[0].h)[inside])
            count.index_add_(0, place, torch.ones(len(place), dtype=torch.float64))
    sizes = {"n_heads": 1, "d_state": automaton.n_states, "dictionary_size": automaton.n_symbols, "orientation": "column"}
    new_config, exact = exact_model(config, model, **sizes)
    new = cast(DictionaryLayer, exact.layers[0])
    maps = torch.from_numpy(automaton.transitions.T.copy())
    with torch.no_grad():
        new.scores[0] = nn.functional.one_hot(maps, automaton.n_states).mT.to(new.scores.dtype)
        columns(new, 0)[...] = (total / count.clamp(min=1).unsqueeze(-1)).T.to(new.scores.dtype)
    route_by_token(new, 0, layer_inputs(exact, grammar.tokens), torch.arange(automaton.n_symbols))
    return new_config, exact
