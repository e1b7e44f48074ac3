"""The channel mixing that time-invariant layers put behind their state space: GELU, then a gated linear unit.

    y = (W_1 v + b_1) * sigmoid(W_2 v + b_2) ,   v = gelu(x)

Letters: E = ``d_model``. Source: S4D (arXiv 2206.11893); LRU (arXiv 2303.06349) and LinOSS (arXiv 2410.03943) use it too.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import gelu, glu


class GatedMixing(nn.Module):
    """``(..., E) -> (..., E)``.

    Args:
        d_model: E.
        approximate: ``"tanh"`` for the usual approximation of GELU, ``"none"`` for the exact one.
    """

    def __init__(self, d_model: int, *, approximate: Literal["none", "tanh"] = "tanh") -> None:
        super().__init__()
        self.approximate = approximate
        self.linear = nn.Linear(d_model, 2 * d_model)

    def forward(self, x: Tensor) -> Tensor:
        return glu(self.linear(gelu(x, approximate=self.approximate)), dim=-1)
