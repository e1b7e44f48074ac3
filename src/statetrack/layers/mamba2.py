"""Mamba-2: selective state spaces with one positive decay per head and matrix states.

    [z, x', B', C', r] = W_in u ;   [x, B, C] = silu(conv4([x', B', C'])) ;   dt_t = softplus(r_t + b_dt) ;   A = -exp(A_log)
    S_t = exp(dt_t A) S_{t-1} + dt_t B_t x_t^T ;   y_t = S_t^T C_t + D x_t ;   out = W_out RMSNorm(y * silu(z))

Letters: E = ``d_model``, H = heads, P = ``d_head``, N = ``d_state``, S = state ``(N, P)`` of a head; all heads share B and C.
Source: Mamba-2 (arXiv 2405.21060).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.convolution import CausalConvolution
from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state
from statetrack.layers.time_step import time_step_bias
from statetrack.scan import SSDBackend, ssd_scan
from statetrack.structures import Diagonal


class Mamba2State(NamedTuple):
    """Attributes:
    conv: ``(B, d_conv - 1, H P + 2 N)``, the last inputs of the convolution.
    s: ``(B, H, N, P)``.
    """

    conv: Tensor
    s: Tensor


@register("mamba2")
class Mamba2(KeepsFloat32, Layer):
    """Mamba-2 layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per channel.
        d_head: P, channels per head; as many heads as it takes for ``expand * E`` channels.
        expand: number of channels as a multiple of E.
        d_conv: width of the causal convolution.
        chunk_size: most tokens that the scan treats at once; changes speed only.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> layer = Mamba2(8, d_state=4, d_head=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.s.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4, 4, 4]))
    """

    traits = Traits(
        structure="scalar times identity, one per head",
        spectrum="real, in (0, 1)",
        input_dependent="time step (and with it the decay), B, C",
        one_layer=Claim("at most", "star-free (aperiodic) automata", "arXiv 2411.12537"),
        deeper=Claim("at most", "star-free automata; no non-trivial group", "arXiv 2404.08819"),
        parity=False,
        cost="O(H N P)",
        source="Mamba-2 (arXiv 2405.21060); limits: arXiv 2404.08819, arXiv 2411.12537",
    )
    pinnable = True
    pins_heads = True
    float32_parameters = ("A_log", "D", "dt_bias")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 128,
        d_head: int = 64,
        expand: int = 2,
        d_conv: int = 4,
        chunk_size: int = 64,
        backend: SSDBackend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, d_head, expand, d_conv, chunk_size) < 1:
            raise InvalidInputError(
                "d_model, d_state, d_head, expand, d_conv and chunk_size must be at least 1; got "
                f"{d_model}, {d_state}, {d_head}, {expand}, {d_conv}, {chunk_size}."
            )
        self.d_model, self.d_state, self.d_head, self.chunk_size, self.backend = d_model, d_state, d_head, chunk_size, backend
        self.n_heads = -(-expand * d_model // d_head)
        channels = self.n_heads * d_head
        self.in_proj = nn.Linear(d_model, 2 * channels + 2 * d_state + self.n_heads, bias=False)
        self.conv = CausalConvolution(channels + 2 * d_state, d_conv)
        self.dt_bias = nn.Parameter(time_step_bias(self.n_heads))
        self.A_log = nn.Parameter(torch.empty(self.n_heads).uniform_(1, 16).log())
        self.D = nn.Parameter(torch.ones(self.n_heads))
        self.norm = nn.RMSNorm(channels, eps=1e-5)
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def initial_state(self, batch_size: int) -> Mamba2State:
        s = zero_state(self, batch_size, self.n_heads, self.d_state, self.d_head)
        return Mamba2State(self.conv.initial_state(batch_size), s)

    def transitions(self, x: Tensor, state: Mamba2State | None = None) -> Diagonal:
        """``exp(dt A) I``, shape ``(B, L, H, N)``."""
        log_decay = self._time_step(self._projected(x)[2])[1]
        return Diagonal(log_decay.exp().unsqueeze(-1).expand(*log_decay.shape, self.d_state))

    def _forward(self, x: Tensor, state: Mamba2State, cu_seqlens: Tensor | None) -> tuple[Tensor, Mamba2State]:
        z, line, r = self._projected(x)
        line, conv = self.conv(line, state.conv, cu_seqlens)
        v, b, c = silu(line).split([z.shape[-1], self.d_state, self.d_state], dim=-1)
        v = v.unflatten(-1, (self.n_heads, self.d_head))
        dt, log_decay = self._time_step(r)
        y, s = ssd_scan(
            dt.unsqueeze(-1) * v,
            log_decay,
            b.unsqueeze(2),
            c.unsqueeze(2),
            initial_state=state.s,
            cu_seqlens=cu_seqlens,
            chunk_size=self.chunk_size,
            backend=self.backend,
        )
        y = (y + self.D.unsqueeze(-1) * v).flatten(-2)
        gated = (y.to(x.dtype) * silu(z)).to(self.norm.weight.dtype)
        return self.out_proj(self.norm(gated).to(x.dtype)), Mamba2State(conv, s)

    def _projected(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gate ``(B, L, H P)``, input of the convolution ``(B, L, H P + 2 N)`` and of the time step ``(B, L, H)``."""
        channels = self.n_heads * self.d_head
        z, line, r = self.in_proj(u).split([channels, channels + 2 * self.d_state, self.n_heads], dim=-1)
        return z, line, r

    def _time_step(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """Time step and log decay, ``(B, L, H)`` each."""
        dt = softplus(at_least_float32(r) + self.dt_bias)
        return dt, self.pins.on_logs(-dt * self.A_log.exp())
