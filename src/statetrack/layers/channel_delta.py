"""What KDA, Complex KDA and GDN-2 share: a decay of its own for every channel of the state, and the gated readout.

    u_t = W_2 W_1 x_t + b_dt ;   log a_t = -exp(A_log) softplus(u_t)  or, bounded,  -5 sigma(exp(A_log) u_t)
    y_t = W_o concat_heads( RMSNorm(o_t) * sigma(V_2 V_1 x_t + c) )

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K`` (also the inner width of both pairs of maps); ``A_log``
is one number per head, ``b_dt`` one per head and channel. Source: Kimi Linear (arXiv 2510.26692).
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from statetrack.layers.base import Claim
from statetrack.layers.delta_base import DeltaLayer, DeltaOptions, HeadOutput
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.layers.time_step import time_step_bias

SWAPS = Claim(
    "at least",
    "parity, and permutation groups whose letters are swaps (negative_eigenvalues, in the limit a -> 1)",
    "arXiv 2411.12537",
)
"""What one layer with reflections tracks."""

REGULAR = Claim("at least", "every regular language (negative_eigenvalues, in the limit a -> 1)", "arXiv 2502.10297")
"""What stacks of layers with reflections track."""

LEAST_LOG_DECAY = -5.0
"""The bounded gates keep at least ``e^-5`` of a channel per token."""


class ChannelGate(KeepsFloat32):
    """What a gate of every channel is computed from: ``W_2 W_1 x + b_dt`` and the rate ``exp(A_log)``.

    Args:
        d_model: E.
        rank: inner width.
        A_log: ``(H,)``, its initial value.
        dt_bias: ``(H, K)``, its initial value.
    """

    float32_parameters = ("A_log", "dt_bias")

    def __init__(self, d_model: int, rank: int, A_log: Tensor, dt_bias: Tensor) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Linear(rank, dt_bias.numel(), bias=False))
        self.A_log, self.dt_bias = nn.Parameter(A_log), nn.Parameter(dt_bias)

    @property
    def rate(self) -> Tensor:
        """``exp(A_log)``, ``(H, 1)``."""
        return self.A_log.exp().unsqueeze(-1)

    def logits(self, x: Tensor) -> Tensor:
        """``W_2 W_1 x + b_dt``, ``(B, L, H, K)``."""
        return at_least_float32(self.project(x)).unflatten(-1, self.dt_bias.shape) + self.dt_bias


class ChannelDecay(ChannelGate):
    """``log a``, ``(B, L, H, K)``, at most 0.

    The rate ``exp(A_log)`` starts uniform in (1, 16), or at 1 for a bounded decay; the time step ``softplus(b_dt)``
    log-uniform in [1e-3, 1e-1].
    """

    def __init__(self, d_model: int, n_heads: int, d_head: int, rank: int, *, bounded: bool) -> None:
        A_log = torch.zeros(n_heads) if bounded else torch.empty(n_heads).uniform_(1, 16).log()
        super().__init__(d_model, rank, A_log, time_step_bias(n_heads * d_head).view(n_heads, d_head))
        self.bounded = bounded

    def forward(self, x: Tensor) -> Tensor:
        logits = self.logits(x)
        if self.bounded:
            return LEAST_LOG_DECAY * (self.rate * logits).sigmoid()
        return self.rate * logsigmoid(-logits)  # -softplus(u) = log sigma(-u)


class ChannelOptions(DeltaOptions, total=False):
    """The options that KDA, Complex KDA and GDN-2 share."""

    output_gate: bool


class ChannelDeltaLayer(DeltaLayer):
    """Common constructor; a subclass adds its gates and defines ``_factors``. Further options are those of ``DeltaLayer``.

    Args:
        d_model: E, width of input and output.
        output_gate: multiply what is read by a sigmoid of two linear maps.
        activate_keys: SiLU on queries and keys.
    """

    @inherits_options(DeltaLayer)
    def __init__(
        self, d_model: int, *, output_gate: bool = True, activate_keys: bool = True, **shared: Unpack[DeltaOptions]
    ) -> None:
        super().__init__(d_model, activate_keys=activate_keys, **shared)
        gate = None
        if output_gate:
            inner = nn.Linear(d_model, self.d_value, bias=False)
            gate = nn.Sequential(inner, nn.Linear(self.d_value, self.n_heads * self.d_value))
        self.readout = HeadOutput(d_model, self.n_heads, self.d_value, gate=gate, activation=torch.sigmoid)
