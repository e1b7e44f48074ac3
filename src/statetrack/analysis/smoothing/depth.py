"""Sharpness and effective rank by depth of a model: embeddings, then what leaves each layer and each block, and each layer's
states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.layer_inputs import layer_inputs
from statetrack.analysis.recency.jacobian import features_of, in_float64_model
from statetrack.analysis.recency.unrolled import has_states, unroll
from statetrack.analysis.smoothing.bound import SmoothingBound, smoothing_bound
from statetrack.analysis.smoothing.sharpness import Sharpness, sharpness
from statetrack.models import Tagger


@dataclass(frozen=True)
class DepthSmoothing:
    """What happens to differences between tokens on the way up.

    Attributes:
        blocks: sharpness of the embeddings, then of the output of every block.
        mixers: of the output of every layer, before its residual path.
        writes: of what every token writes into the states of every layer; None for layers whose cache grows.
        states: of these states, all heads joined; None for the same layers.
        bounds: the theorem's bound for every layer it covers, beside the measured value; None for the others.
    """

    blocks: list[Sharpness]
    mixers: list[Sharpness]
    writes: list[Sharpness | None]
    states: list[Sharpness | None]
    bounds: list[SmoothingBound | None]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "blocks": [each.to_dict() for each in self.blocks],
            "mixers": [each.to_dict() for each in self.mixers],
            "writes": [None if each is None else each.to_dict() for each in self.writes],
            "states": [None if each is None else each.to_dict() for each in self.states],
            "bounds": [None if each is None else each.to_dict() for each in self.bounds],
        }


def smoothing_by_depth(model: Tagger, tokens: Tensor) -> DepthSmoothing:
    """Sharpness at every depth of a model on words ``(B, L)``, in float64.

    Raises:
        InvalidInputError: tokens that are not ``(B, L)``, or fewer than two of them.
    """
    frozen = in_float64_model(model)
    inputs = layer_inputs(frozen, tokens)
    with torch.no_grad():
        x = frozen.embedding(tokens)
        blocks = [sharpness(features_of(frozen, x, depth=depth)) for depth in range(len(frozen.blocks) + 1)]
        mixers = [sharpness(layer(u)[0]) for layer, u in zip(frozen.layers, inputs, strict=True)]
    writes, states, bounds = [], [], []
    for layer, u in zip(frozen.layers, inputs, strict=True):
        run = unroll(layer, u) if has_states(layer) else None
        writes.append(None if run is None else sharpness(run.writes.flatten(2)))
        states.append(None if run is None else sharpness(run.h[:, 1:].flatten(2)))
        bounds.append(smoothing_bound(layer, u))
    return DepthSmoothing(blocks, mixers, writes, states, bounds)
