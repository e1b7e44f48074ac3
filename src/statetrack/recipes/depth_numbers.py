"""Recency and over-smoothing of a stack in a few numbers, on random words.

Half-life, share from far back and first-token gain are those of the embeddings' influence on what the head reads, sharpness and
effective rank those of what leaves the last block. Source: Understanding and Mitigating Bottlenecks of State Space Models through
the Lens of Recency and Over-smoothing (arXiv 2501.00658).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.recency import by_distance, model_influence
from statetrack.analysis.smoothing import SmoothingBound, smoothing_by_depth
from statetrack.models import Tagger

_EVERY = 4
_PROBES = 4
_FITTED_FROM = 4
"""Short convolutions reach three tokens back; the slope is that of what the recurrences carry."""


def random_words(vocab_size: int, n: int, length: int, seed: int = 0) -> Tensor:
    """Uniform tokens ``(n, length)``."""
    return torch.randint(0, vocab_size, (n, length), generator=torch.Generator().manual_seed(seed))


def depth_numbers(model: Tagger, tokens: Tensor) -> dict[str, Any]:
    """Recency and smoothing of a model on words ``(B, L)``, in plain data; None stands for what is not a number.

    Returns:
        ``slope`` of the log-influence per token (positive where it falls), ``half_life`` in tokens (None where it does not fall),
        ``far_share`` of the squared influence from at least ``L / 2`` tokens back, ``first_token_gain``; by block from the
        embeddings up ``relative`` (sharpness), ``cosine`` and ``effective_rank``; by layer ``states`` (their relative sharpness)
        and ``bounds`` of their spread.
    """
    length = tokens.shape[1]
    positions = list(range(length // 2, length, _EVERY))
    found = model_influence(model, tokens, positions=positions, probes=_PROBES)
    curve = by_distance(found, positions=positions, fitted_from=_FITTED_FROM)
    smoothing = smoothing_by_depth(model, tokens)
    return {
        "slope": _plain(curve.slope),
        "half_life": _plain(curve.half_life),
        "far_share": _plain(float(curve.far_share[length // 2])),
        "first_token_gain": _plain(curve.first_token_gain),
        "relative": [each.relative for each in smoothing.blocks],
        "cosine": [each.cosine for each in smoothing.blocks],
        "effective_rank": [each.effective_rank for each in smoothing.blocks],
        "states": [None if each is None else each.relative for each in smoothing.states],
        "bounds": [_bound(each) for each in smoothing.bounds],
    }


def _bound(bound: SmoothingBound | None) -> dict[str, Any] | None:
    return None if bound is None else {name: _plain(value) for name, value in bound.to_dict().items()}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
