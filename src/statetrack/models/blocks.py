"""Blocks: a layer with its norm, residual path, feed-forward and dropout."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from statetrack.layers import Layer

Norm = Literal["pre", "post", "none"]


class Dropout(nn.Module):
    """Inverted dropout with its own generator, so that the global random state is never touched.

    Args:
        rate: probability in [0, 1) that an entry is zeroed during training.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.rate
        return x * keep / (1 - self.rate)


class Block(nn.Module):
    """``norm -> layer -> dropout -> residual``, then the same with a GELU feed-forward if there is one.

    Args:
        layer: the sequence layer.
        norm: ``"pre"`` normalises what enters the layer, ``"post"`` what leaves the block.
        residual: add the block's input to its output.
        feedforward: hidden width as a multiple of ``d_model``; 0 leaves it out.
        dropout: rate on the layer's and the feed-forward's output.
    """

    def __init__(self, layer: Layer, *, norm: Norm, residual: bool, feedforward: int, dropout: float) -> None:
        super().__init__()
        d = layer.d_model
        self.layer, self.norm_kind, self.residual = layer, norm, residual
        self.norms = nn.ModuleList(nn.Identity() if norm == "none" else nn.LayerNorm(d) for _ in range(1 + bool(feedforward)))
        self.dropout = Dropout(dropout)
        self.feedforward = (
            nn.Sequential(nn.Linear(d, feedforward * d), nn.GELU(), nn.Linear(feedforward * d, d)) if feedforward else None
        )

    def forward(self, x: Tensor, state: Any, **where: Any) -> tuple[Tensor, Any]:
        y, state = self.layer(self._enter(x, 0), state, **where)
        x = self._leave(x, y, 0)
        if self.feedforward is not None:
            x = self._leave(x, self.feedforward(self._enter(x, 1)), 1)
        return x, state

    def _enter(self, x: Tensor, i: int) -> Tensor:
        return self.norms[i](x) if self.norm_kind == "pre" else x

    def _leave(self, x: Tensor, y: Tensor, i: int) -> Tensor:
        y = self.dropout(y)
        y = x + y if self.residual else y
        return y if self.norm_kind == "pre" else self.norms[i](y)
