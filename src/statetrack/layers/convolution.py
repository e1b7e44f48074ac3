"""Short causal depthwise convolution that streams and respects document borders.

    y_t[c] = sum_j w[c, j] x_{t - W + 1 + j}[c] + b[c]

Letters: C = channels, W = ``width``, S = documents; the state holds the last ``W - 1`` inputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from statetrack.layers.precision import zero_state


def with_history(x: Tensor, state: Tensor, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
    """Inputs ``(B, L, C)`` in a line with the last ones before them, ``state (B, W - 1, C)`` or ``(S, W - 1, C)``.

    Returns:
        The line ``(B, L', C)`` in the dtype of the state; where the window of each token begins in it, ``(L,)``, or None if that
        is the token's own number; the new state.
    """
    if cu_seqlens is None:
        line = torch.cat([state, x.to(state.dtype)], dim=1)
        return line, None, line[:, x.shape[1] :]
    # Each document gets its own state in front, so that windows over the longer line never reach across a border.
    history, offsets = state.shape[1], cu_seqlens.long()
    tokens = torch.arange(x.shape[1], device=x.device)
    first = tokens + history * torch.searchsorted(offsets[1:].contiguous(), tokens, right=True)
    each = torch.arange(len(offsets) - 1, device=x.device).unsqueeze(1) * history + torch.arange(history, device=x.device)
    line = x.new_zeros(1, x.shape[1] + each.numel(), x.shape[2], dtype=state.dtype)
    line = line.index_copy(1, (offsets[:-1, None] + each).flatten(), state.reshape(1, -1, x.shape[2]))
    line = line.index_copy(1, first + history, x.to(state.dtype))
    return line, first, line[0, offsets[1:, None] + each]


class CausalConvolution(nn.Module):
    """Depthwise convolution ``(B, L, C) -> (B, L, C)`` of width ``W`` that sees no later token and no other document.

    Args:
        channels: C.
        width: W, how many tokens each output sees.
        bias: add a bias per channel.
    """

    def __init__(self, channels: int, width: int = 4, *, bias: bool = True) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    @property
    def width(self) -> int:
        """W."""
        return self.weight.shape[1]

    def initial_state(self, batch_size: int) -> Tensor:
        """Zeros ``(B, W - 1, C)``."""
        return zero_state(self, batch_size, self.width - 1, self.weight.shape[0])

    def forward(self, x: Tensor, state: Tensor, cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs ``(B, L, C)`` in the dtype of ``x`` and the new state ``(B, W - 1, C)``, with a row per packed document."""
        line, first, state = with_history(x, state, cu_seqlens)
        y = self._slide(line)
        return (y if first is None else y[:, first]).to(x.dtype), state

    def _slide(self, line: Tensor) -> Tensor:
        length = line.shape[1] - self.width + 1
        weight = self.weight.to(line.dtype)
        y = sum(line[:, j : j + length] * weight[:, j] for j in range(self.width))
        assert isinstance(y, Tensor)
        return y if self.bias is None else y + self.bias.to(line.dtype)
