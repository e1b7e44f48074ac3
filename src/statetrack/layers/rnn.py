"""Tanh RNN, a nonlinear control that runs token by token.

    h_t = tanh(W h_{t-1} + U x_t + b) ;   y_t = V h_t + c

Letters: E = ``d_model``, N = ``d_state``. Source: Elman (1990), "Finding structure in time".
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from statetrack.layers.base import Claim, register
from statetrack.layers.precision import zero_state
from statetrack.layers.sequential import SequentialLayer, cell_weights, nonlinear_traits, run_cell
from statetrack.structures import Dense


class RNNState(NamedTuple):
    """Attributes:
    h: ``(B, N)``.
    """

    h: Tensor


@register("rnn")
class RNN(SequentialLayer):
    """Tanh RNN with a linear readout; options as in ``SequentialLayer``.

    Example:
        >>> import torch
        >>> layer = RNN(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4]))
    """

    traits = nonlinear_traits(
        Claim("exact", "every regular language", "Minsky (1967)"), "Elman (1990); Minsky (1967) for automata"
    )

    def __init__(self, d_model: int, *, d_state: int = 64) -> None:
        super().__init__(d_model, d_state=d_state)
        self.cell = nn.RNN(d_model, d_state, batch_first=True)
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> RNNState:
        return RNNState(zero_state(self, batch_size, self.d_state))

    def transitions(self, x: Tensor, state: RNNState | None = None) -> Dense:
        """``diag(1 - h_t^2) W`` along the run, ``(B, L, 1, N, N)``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        h, _ = run_cell(self.cell, x, state, None)
        return Dense(((1 - h.square()).unsqueeze(-1) * cell_weights(self.cell)[1]).unsqueeze(2))

    def _forward(self, x: Tensor, state: RNNState, cu_seqlens: Tensor | None) -> tuple[Tensor, RNNState]:
        h, final = run_cell(self.cell, x, state, cu_seqlens)
        return self.out(h), RNNState(*final)
