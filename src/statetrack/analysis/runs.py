"""Running a model over many words: from stored states, in blocks, and on chosen prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]

_BLOCK = 1024
"""Tokens per row and pass."""


@torch.no_grad()
def classes(model: Tagger, words: IntArray) -> IntArray:
    """The class with the largest score after each token, ``(B, L)`` for words ``(B, L)``."""
    states = None
    block = _BLOCK if streams(model) else max(1, words.shape[1])
    parts = [np.zeros((len(words), 0), dtype=np.int64)]
    for start in range(0, words.shape[1], block):
        scores, states = model(torch.from_numpy(words[:, start : start + block]), states)
        parts.append(scores.argmax(-1).numpy())
    return np.concatenate(parts, axis=1)


@torch.no_grad()
def step(model: Tagger, tokens: IntArray, states: list[Any]) -> tuple[IntArray, list[Any]]:
    """Classes ``(B,)`` and states after one token ``(B,)``."""
    scores, states = model.step(torch.from_numpy(tokens), states)
    return scores.argmax(-1).numpy(), states


def rows(states: list[Any], index: IntArray) -> list[Any]:
    """The states of some rows of a batch, in that order."""
    chosen = torch.from_numpy(np.asarray(index, dtype=np.int64))
    return [type(state)(*(field[chosen] for field in state)) for state in states]


def joined(parts: list[list[Any]]) -> list[Any]:
    """The states of several batches as one batch."""
    return [type(layer[0])(*(torch.cat(fields) for fields in zip(*layer, strict=True))) for layer in zip(*parts, strict=True)]


def keys(states: list[Any]) -> list[bytes]:
    """One string per row that is the same for equal states."""
    fields = [torch.view_as_real(field) if field.is_complex() else field for state in states for field in state]
    arrays = [(field.flatten(1).numpy() + 0.0).view(np.uint8).reshape(len(field), -1) for field in fields]
    return [row.tobytes() for row in np.concatenate(arrays, axis=1)]


def streams(model: Tagger) -> bool:
    """Whether the model carries states of constant size from token to token."""
    return all(layer.traits.streams for layer in model.layers)
