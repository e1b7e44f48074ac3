"""State-gated RNN, a nonlinear control that runs token by token: the gate reads the state, the candidate is affine in it.

    h_t = z_t * h_{t-1} + (1 - z_t) * (W h_{t-1} + U x_t + b) ;   z_t = sigmoid(W_z x_t + U_z h_{t-1} + b_z)
    y_t = V h_t + a

Letters: E = ``d_model``, N = ``d_state``. Source: the state-gated control of a state-tracking replication (arXiv 2605.07755),
which names it without equations; these are the usual ones of a gated RNN without reset gate and without tanh.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.layers.base import Claim, register
from statetrack.layers.cache import as_rows, filled_slots
from statetrack.layers.float32_linear import Float32Linear
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.layers.sequential import SequentialLayer, nonlinear_traits
from statetrack.scan.offsets import states_before
from statetrack.structures import Dense


class StateGatedRNNState(NamedTuple):
    """Attributes:
    h: ``(B, N)``.
    """

    h: Tensor


@register("state-gated-rnn")
class StateGatedRNN(SequentialLayer):
    """State-gated RNN with a linear readout; options as in ``SequentialLayer``.

    Example:
        >>> layer = StateGatedRNN(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4]))
    """

    traits = nonlinear_traits(Claim("at least", "C_2 (parity)", "derived"), "control of arXiv 2605.07755")

    def __init__(self, d_model: int, *, d_state: int = 64) -> None:
        super().__init__(d_model, d_state=d_state)
        self.input = nn.Linear(d_model, 2 * d_state)
        self.recurrent = Float32Linear(d_state, 2 * d_state, bias=False)
        bound = d_state**-0.5
        for parameter in (self.input.weight, self.input.bias, self.recurrent.weight):
            nn.init.uniform_(parameter, -bound, bound)
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> StateGatedRNNState:
        return StateGatedRNNState(zero_state(self, batch_size, self.d_state))

    def transitions(self, x: Tensor, state: StateGatedRNNState | None = None) -> Dense:
        """``diag(z) + diag(1 - z) W + diag((h - candidate) z (1 - z)) U_z`` along the run, ``(B, L, 1, N, N)``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        driven = at_least_float32(self.input(x))
        h = states_before(self._run(driven, state.h)[0], state.h, None)
        candidate, z = self._candidate_and_gate(driven, h)
        w, u_z = self.recurrent(torch.eye(self.d_state, dtype=h.dtype, device=h.device)).mT.chunk(2)
        slope = (h - candidate) * z * (1 - z)
        return Dense((torch.diag_embed(z) + (1 - z).unsqueeze(-1) * w + slope.unsqueeze(-1) * u_z).unsqueeze(2))

    def _forward(self, x: Tensor, state: StateGatedRNNState, cu_seqlens: Tensor | None) -> tuple[Tensor, StateGatedRNNState]:
        driven = at_least_float32(self.input(x))
        if cu_seqlens is None:
            h, final = self._run(driven, state.h)
        else:
            present = filled_slots(cu_seqlens)
            rows, final = self._run(as_rows(driven, present), state.h, present)
            h = rows[present].unsqueeze(0)
        return self.out(h.to(x.dtype)), StateGatedRNNState(final)

    def _run(self, driven: Tensor, h: Tensor, present: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hidden outputs ``(B, L, N)`` and the last ones, from what inputs give ``(B, L, 2 N)``; absent tokens change nothing."""
        states = []
        for t, each in enumerate(driven.unbind(1)):
            candidate, z = self._candidate_and_gate(each, h)
            new = torch.lerp(candidate, h, z)
            h = new if present is None else torch.where(present[:, t, None], new, h)
            states.append(h)
        return torch.stack(states, dim=1) if states else driven.new_empty(*driven.shape[:2], self.d_state), h

    def _candidate_and_gate(self, driven: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        candidate, gate = (driven + self.recurrent(h)).chunk(2, dim=-1)
        return candidate, gate.sigmoid()
