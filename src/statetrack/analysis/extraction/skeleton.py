"""Where the values of PD layers lie: the entries that hold something, moved by the selections alone.

A state of such a layer is a few values on some entries; which entries, and where a token sends them, is discrete whatever the
values are. Letters: B = words, H = heads, N = ``d_state``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from statetrack.analysis import runs
from statetrack.errors import InvalidInputError
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.models import Tagger
from statetrack.structures import ColumnOneHot, RowOneHot

IntArray = npt.NDArray[np.int64]


class Position(NamedTuple):
    """Where a batch of words has led.

    Attributes:
        states: of the model, as it carries them.
        masks: for each layer ``(B, H, N)`` bool, which entries hold something.
    """

    states: list[Any]
    masks: list[Tensor]

    def rows(self, index: IntArray) -> Position:
        """Some of the words, in that order."""
        chosen = torch.from_numpy(np.asarray(index, dtype=np.int64))
        return Position(runs.rows(self.states, index), [mask[chosen] for mask in self.masks])

    def places(self, heads: list[tuple[int, int]]) -> list[bytes]:
        """For each word one string of the masks of some heads, given as layer and head."""
        packed = [np.packbits(self.masks[layer][:, head].numpy(), axis=1) for layer, head in heads]
        return [row.tobytes() for row in np.concatenate(packed, axis=1)]


def joined(parts: list[Position]) -> Position:
    """Several batches as one."""
    masks = [torch.cat(layer) for layer in zip(*(part.masks for part in parts), strict=True)]
    return Position(runs.joined([part.states for part in parts]), masks)


def pd_layers(model: Tagger) -> list[DictionaryLayer]:
    """The layers of a model made of PD layers that start from a state that is not zero.

    Raises:
        InvalidInputError: another layer, or an initial state of zeros.
    """
    found = []
    for layer in model.layers:
        if not isinstance(layer, DictionaryLayer):
            raise InvalidInputError(f"Selections can be read off pd-ssm and flash-pd-ssm, not off {type(layer).__name__}.")
        if not layer.initial_state(1).h.any():
            raise InvalidInputError("Selections say nothing about a layer with initial_state='zero', whose values are all added.")
        found.append(layer)
    return found


def all_heads(model: Tagger) -> list[tuple[int, int]]:
    """Every head as layer and head."""
    return [(i, head) for i, layer in enumerate(pd_layers(model)) for head in range(layer.n_heads)]


def start(model: Tagger) -> Position:
    """The position before the first token, as a batch of one."""
    states = model.initial_state(1)
    return Position(states, [state.h != 0 for state in states])


@torch.no_grad()
def advance(model: Tagger, position: Position, tokens: IntArray) -> tuple[IntArray, Position]:
    """The classes ``(B,)`` after one more token ``(B,)``, and the new position."""
    read: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        read.append(inputs[0])

    hooks = [layer.register_forward_pre_hook(note) for layer in model.layers]
    try:
        classes, states = runs.step(model, tokens, position.states)
    finally:
        for hook in hooks:
            hook.remove()
    masks = [_moved(layer, u, mask) for layer, u, mask in zip(model.layers, read, position.masks, strict=True)]
    return classes, Position(states, masks)


def _moved(layer: nn.Module, u: Tensor, mask: Tensor) -> Tensor:
    transition = layer.transitions(u)  # type: ignore[operator]
    assert isinstance(transition, ColumnOneHot | RowOneHot)
    index = transition.index[:, 0].long()
    if isinstance(transition, RowOneHot):
        return mask.gather(-1, index)
    return torch.zeros_like(mask, dtype=torch.uint8).scatter_add_(-1, index, mask.to(torch.uint8)) > 0
