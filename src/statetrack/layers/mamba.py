"""Mamba (S6): selective state spaces with a positive real diagonal.

    [x', z] = W_in u ;   v = silu(conv4(x')) ;   [r, B_t, C_t] = W_x v ;   dt_t = softplus(W_dt r + b_dt) ;   A = -exp(A_log)
    h_t[c,n] = exp(dt_t[c] A[c,n]) h_{t-1}[c,n] + dt_t[c] B_t[n] v_t[c]
    y_t[c]   = sum_n C_t[n] h_t[c,n] + D[c] v_t[c] ;   out = W_out (y * silu(z))

Letters: E = ``d_model``, C = ``expand * E`` channels, N = ``d_state`` per channel, R = ``dt_rank``. Every channel is a
head of the scan. Source: Mamba (arXiv 2312.00752).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.convolution import CausalConvolution
from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state
from statetrack.layers.time_step import time_step_bias
from statetrack.scan import Backend, scan
from statetrack.structures import Diagonal


class MambaState(NamedTuple):
    """Attributes:
    conv: ``(B, d_conv - 1, C)``, the last inputs of the convolution.
    h: ``(B, C, N)``.
    """

    conv: Tensor
    h: Tensor


@register("mamba")
class Mamba(KeepsFloat32, Layer):
    """Mamba layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per channel.
        expand: number of channels as a multiple of E.
        d_conv: width of the causal convolution.
        dt_rank: R, rank of the time-step projection; None means ``ceil(E / 16)``.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> layer = Mamba(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 16, 4]))
    """

    traits = Traits(
        structure="diagonal",
        spectrum="real, in (0, 1)",
        input_dependent="time step (and with it the diagonal), B, C",
        one_layer=Claim("at most", "star-free (aperiodic) automata", "arXiv 2411.12537"),
        deeper=Claim("at most", "star-free automata; no non-trivial group", "arXiv 2404.08819"),
        parity=False,
        cost="O(C N)",
        source="Mamba (arXiv 2312.00752); limits: arXiv 2404.08819, arXiv 2411.12537",
    )
    pinnable = True
    float32_parameters = ("A_log", "D")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 16,
        expand: int = 2,
        d_conv: int = 4,
        dt_rank: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        if min(d_model, d_state, expand, d_conv, dt_rank) < 1:
            raise InvalidInputError(
                "d_model, d_state, expand, d_conv and dt_rank must be at least 1; got "
                f"{d_model}, {d_state}, {expand}, {d_conv}, {dt_rank}."
            )
        self.d_model, self.d_state, self.dt_rank, self.backend = d_model, d_state, dt_rank, backend
        channels = expand * d_model
        self.in_proj = nn.Linear(d_model, 2 * channels, bias=False)
        self.conv = CausalConvolution(channels, d_conv)
        self.x_proj = nn.Linear(channels, dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(dt_rank, channels)
        nn.init.uniform_(self.dt_proj.weight, -(dt_rank**-0.5), dt_rank**-0.5)
        self.dt_proj.bias.data.copy_(time_step_bias(channels))
        self.A_log = nn.Parameter(torch.arange(1.0, d_state + 1).log().repeat(channels, 1))
        self.D = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def initial_state(self, batch_size: int) -> MambaState:
        return MambaState(self.conv.initial_state(batch_size), zero_state(self, batch_size, len(self.D), self.d_state))

    def transitions(self, x: Tensor, state: MambaState | None = None) -> Diagonal:
        state = self.initial_state(x.shape[0]) if state is None else state
        v, _ = self._convolved(self.in_proj(x).chunk(2, dim=-1)[0], state, None)
        return self.pins.on(self._decay(self._selected(v)[0]))

    def _forward(self, x: Tensor, state: MambaState, cu_seqlens: Tensor | None) -> tuple[Tensor, MambaState]:
        v, z = self.in_proj(x).chunk(2, dim=-1)
        v, conv = self._convolved(v, state, cu_seqlens)
        dt, b, c = self._selected(v)
        drive = (dt * v).unsqueeze(-1) * b.unsqueeze(-2)
        states, final = scan(self.pins.on(self._decay(dt)), drive, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        y = (states @ c.to(states.dtype).unsqueeze(-1)).squeeze(-1) + self.D * v
        return self.out_proj(y.to(x.dtype) * silu(z)), MambaState(conv, final)

    def _convolved(self, v: Tensor, state: MambaState, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        v, conv = self.conv(v, state.conv, cu_seqlens)
        return silu(v), conv

    def _selected(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Time step ``(B, L, C)`` and ``B``, ``C`` of shape ``(B, L, N)``."""
        r, b, c = self.x_proj(v).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        return softplus(at_least_float32(self.dt_proj(r))), b, c

    def _decay(self, dt: Tensor) -> Diagonal:
        """``exp(dt A)`` of shape ``(B, L, C, N)``."""
        return Diagonal((dt.unsqueeze(-1) * -self.A_log.exp()).exp())
