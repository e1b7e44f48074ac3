"""What KDA, Complex KDA and GDN-2 share: a decay of its own for every channel of the state, and the gated readout.

    u_t = W_2 W_1 x_t + b_dt ;   log a_t = -exp(A_log) softplus(u_t)  or, bounded,  -5 sigma(exp(A_log) u_t)
    y_t = W_o concat_heads( RMSNorm(o_t) * sigma(V_2 V_1 x_t + c) )

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K`` (also the inner width of both pairs of maps); ``A_log``
is one number per head, ``b_dt`` one per head and channel. Source: Kimi Linear (arXiv 2510.26692).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from statetrack.layers.delta_base import DeltaLayer, HeadOutput
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.layers.time_step import time_step_bias
from statetrack.scan import LowRankBackend

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


class ChannelDeltaLayer(DeltaLayer):
    """Common constructor; a subclass adds its gates and defines ``_factors``. ``output_gate`` is sigma of two linear maps."""

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int,
        d_head: int | None,
        expand_v: int,
        short_conv: bool,
        output_gate: bool,
        additive_input: bool,
        backend: LowRankBackend,
        activate_keys: bool = True,
    ) -> None:
        super().__init__(
            d_model,
            n_heads=n_heads,
            d_head=d_head,
            expand_v=expand_v,
            short_conv=short_conv,
            additive_input=additive_input,
            backend=backend,
            activate_keys=activate_keys,
        )
        gate = None
        if output_gate:
            inner = nn.Linear(d_model, self.d_value, bias=False)
            gate = nn.Sequential(inner, nn.Linear(self.d_value, n_heads * self.d_value))
        self.readout = HeadOutput(d_model, n_heads, self.d_value, gate=gate, activation=torch.sigmoid)
