"""Answers at all positions from what a model holds at the last one: the decoder of an auto-encoder.

    z_t = h_L + p_t ,   twice: z_t <- GELU(W norm(z_t) + b)

Letters: h_L = what the stack of layers gives out at the last position; p_t = fixed sines and cosines of the position t. Source:
Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844), compression task.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_PERIOD = 10_000.0
_ROUNDS = 2


class LastDecoder(nn.Module):
    """``(B, L, d_model)`` from the last of ``(B, L, d_model)`` alone.

    Args:
        d_model: width.

    Example:
        >>> LastDecoder(8)(torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.rounds = nn.Sequential(
            *(nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, d_model), nn.GELU()) for _ in range(_ROUNDS))
        )

    def forward(self, x: Tensor) -> Tensor:
        positions = sinusoids(x.shape[1], self.d_model).to(x)
        decoded: Tensor = self.rounds(x[:, -1:] + positions)
        return decoded


def sinusoids(length: int, width: int) -> Tensor:
    """``(length, width)`` sines, then cosines, of the position at geometrically spaced rates from 1 to 1 / 10,000."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(_PERIOD) / max(1, half - 1)))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :width]
