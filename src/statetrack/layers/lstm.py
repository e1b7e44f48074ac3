"""LSTM, the classical nonlinear control that runs token by token.

    [i, f, o] = sigmoid(W x_t + U h_{t-1} + b) ;   g = tanh(W_g x_t + U_g h_{t-1} + b_g)
    c_t = f * c_{t-1} + i * g ;   h_t = o * tanh(c_t) ;   y_t = V h_t + a

Letters: E = ``d_model``, N = ``d_state``. Source: Hochreiter and Schmidhuber (1997), forget gate by Gers et al. (2000).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.layers.base import Claim, register
from statetrack.layers.precision import zero_state
from statetrack.layers.sequential import SequentialLayer, cell_weights, nonlinear_traits, run_cell
from statetrack.structures import Dense


class LSTMState(NamedTuple):
    """Attributes:
    h: ``(B, N)``, what the gates and the readout see.
    c: ``(B, N)``, memory cells.
    """

    h: Tensor
    c: Tensor


@register("lstm")
class LSTM(SequentialLayer):
    """LSTM with a linear readout.

    Args:
        d_model: E, width of input and output.
        d_state: N, number of memory cells.

    Example:
        >>> layer = LSTM(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.c.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4]))
    """

    traits = nonlinear_traits(
        Claim("at least", "every regular language, and counting", "arXiv 1805.04908"),
        "Hochreiter and Schmidhuber (1997); counting: arXiv 1805.04908",
    )

    def __init__(self, d_model: int, *, d_state: int = 64) -> None:
        super().__init__(d_model, d_state=d_state)
        self.cell = nn.LSTM(d_model, d_state, batch_first=True)
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> LSTMState:
        return LSTMState(zero_state(self, batch_size, self.d_state), zero_state(self, batch_size, self.d_state))

    def transitions(self, x: Tensor, state: LSTMState | None = None) -> Dense:
        """Jacobians of the joint state ``[h; c]`` along the run, ``(B, L, 1, 2N, 2N)``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        w, u, bias = cell_weights(self.cell)
        h_run, _ = run_cell(self.cell, x, state, None)
        h = torch.cat([state.h.to(h_run.dtype).unsqueeze(1), h_run], dim=1)[:, :-1]
        i, f, g, o = (x.to(w.dtype) @ w.mT + h @ u.mT + bias).chunk(4, dim=-1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        cells = [state.c.to(h.dtype)]
        for t in range(x.shape[1]):
            cells.append(f[:, t] * cells[-1] + i[:, t] * g[:, t])
        c, squashed = torch.stack(cells, dim=1)[:, :-1], torch.stack(cells, dim=1)[:, 1:].tanh()
        u_i, u_f, u_g, u_o = u.chunk(4)
        dc_dh = _rows(g * i * (1 - i)) * u_i + _rows(c * f * (1 - f)) * u_f + _rows(i * (1 - g.square())) * u_g
        dc_dc = torch.diag_embed(f)
        slope = _rows(o * (1 - squashed.square()))
        dh_dh = _rows(squashed * o * (1 - o)) * u_o + slope * dc_dh
        rows = torch.cat([dh_dh, slope * dc_dc], dim=-1), torch.cat([dc_dh, dc_dc], dim=-1)
        return Dense(torch.cat(rows, dim=-2).unsqueeze(2))

    def _forward(self, x: Tensor, state: LSTMState, cu_seqlens: Tensor | None) -> tuple[Tensor, LSTMState]:
        h, final = run_cell(self.cell, x, state, cu_seqlens)
        return self.out(h), LSTMState(*final)


def _rows(scale: Tensor) -> Tensor:
    """A factor for every row of a matrix."""
    return scale.unsqueeze(-1)
