"""Rotations chosen by the input: the transitions of unit-circle layers.

    theta = s W x + b ;   A = diag(exp(i theta))          or, with Q levels, theta rounded to the nearest multiple of 2 pi / Q

Letters: E = width of the input, H = heads, N = states per head, s = scale, Q = ``levels``. Rounding passes gradients straight
through. Source: AUSSM (arXiv 2507.05238) for the phases; the levels are this library's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from statetrack.layers.float32_linear import Float32Linear
from statetrack.layers.phase_choice import checked_levels, roots_of_unity
from statetrack.layers.precision import KeepsFloat32
from statetrack.structures import Diagonal


class Rotations(KeepsFloat32):
    """Unit-modulus diagonals ``(B, L, H, N)`` from inputs ``(B, L, E)``, in float32 or better, also under autocast.

    Args:
        d_input: E.
        n_heads: H.
        d_state: N.
        scale: s.
        offset: add b, uniform on the circle at the start.
        levels: Q, number of phases that are allowed; None allows all.

    Raises:
        InvalidInputError: ``levels`` below 2.
    """

    def __init__(
        self, d_input: int, n_heads: int, d_state: int, *, scale: float = 1.0, offset: bool = False, levels: int | None = None
    ) -> None:
        super().__init__()
        self.shape, self.scale, self.levels = (n_heads, d_state), scale, checked_levels(levels)
        self.linear = Float32Linear(d_input, n_heads * d_state, bias=False)
        start = torch.empty(n_heads, d_state).uniform_(-math.pi, math.pi)
        self.offset = nn.Parameter(start) if offset else None
        self.float32_parameters = ("offset",) if offset else ()

    def forward(self, x: Tensor, rate: Tensor | None = None) -> Diagonal:
        """``diag(exp(i rate * theta))`` with ``rate (B, L, H)``; None means 1."""
        theta = self.scale * self.linear(x).unflatten(-1, self.shape)
        theta = theta if self.offset is None else theta + self.offset
        theta = theta if rate is None else theta * rate.unsqueeze(-1)
        if self.levels is None:
            return Diagonal(torch.polar(torch.ones_like(theta), theta))
        # Values come from a table, so that there are no more than Q of them; the second factor is 1 and carries the gradient.
        nearest = (theta.detach() * (self.levels / (2 * math.pi))).round().long() % self.levels
        slack = torch.polar(torch.ones_like(theta), theta - theta.detach())
        return Diagonal(roots_of_unity(self.levels, theta)[nearest] * slack)
