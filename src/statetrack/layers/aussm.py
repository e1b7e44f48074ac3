"""AUSSM: adaptive unitary state-space model, whose input turns every state and never shrinks it.

    [x', z] = W_in u ;   x = conv4(x') or x' ;   dt_t = softplus(W_dt W_x x_t + b_dt) ;   theta_t = W_theta x_t / sqrt(E) + b
    h_t[c,n] = exp(i theta_t[c,n]) h_{t-1}[c,n] + dt_t[c] B[n] silu(x_t[c])
    y_t[c]   = Re sum_n C[n] h_t[c,n] + D[c] silu(x_t[c]) ;   out = W_out (y * silu(z))

Letters: E = ``d_model`` = number of channels, N = ``d_state`` complex states per channel; c counts channels, n states. B and C
are complex, constant and shared by all channels. Source: AUSSM (arXiv 2507.05238).
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
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.layers.rotations import Rotations
from statetrack.layers.time_step import time_step_bias
from statetrack.scan import Backend, scan
from statetrack.structures import Diagonal


class AUSSMState(NamedTuple):
    """Attributes:
    conv: ``(B, d_conv - 1, E)``, the last inputs of the convolution; ``(B, 0, E)`` without one.
    h: ``(B, E, N)`` complex.
    """

    conv: Tensor
    h: Tensor


@register("aussm")
class AUSSM(Layer):
    """AUSSM layer.

    As in the released code, phases do not depend on the time step unless ``phase_dt`` asks for it; unlike there, the bias of the
    time step is added once.

    Args:
        d_model: E, width of input and output.
        d_state: N, complex states per channel, and rank of the time-step projection.
        d_conv: width of a causal convolution in front; None leaves it out.
        phase_dt: multiply phases by the time step.
        phase_levels: Q, rounds phases to multiples of ``2 pi / Q``, with gradients straight through; then the transitions are
            finitely many and generate a finite group. None keeps all phases.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, or fewer than 2 levels.

    Example:
        >>> layer = AUSSM(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 4]))
    """

    traits = Traits(
        structure="diagonal",
        spectrum="unit circle",
        input_dependent="phases, time step",
        one_layer=Claim("exact", "abelian groups", "arXiv 2603.01959"),
        deeper=Claim(
            "exact", "k layers: groups with a subnormal series of length k with abelian factors; never A5", "arXiv 2603.01959"
        ),
        parity=True,
        cost="O(E N), and O(E^2 N) for the phases",
        source="AUSSM (arXiv 2507.05238); limits: arXiv 2603.01959",
    )

    pinnable = True

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 16,
        d_conv: int | None = None,
        phase_dt: bool = False,
        phase_levels: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, 1 if d_conv is None else d_conv) < 1:
            raise InvalidInputError(f"d_model, d_state and d_conv must be at least 1; got {d_model}, {d_state}, {d_conv}.")
        self.d_model, self.d_state, self.phase_dt, self.backend = d_model, d_state, phase_dt, backend
        self.in_proj = nn.Linear(d_model, 2 * d_model, bias=False)
        self.conv = None if d_conv is None else CausalConvolution(d_model, d_conv)
        self.x_proj = nn.Linear(d_model, d_state, bias=False)
        self.dt_proj = nn.Linear(d_state, d_model)
        nn.init.uniform_(self.dt_proj.weight, -(d_state**-0.5), d_state**-0.5)
        self.dt_proj.bias.data.copy_(time_step_bias(d_model))
        self.phase = Rotations(d_model, d_model, d_state, scale=1 / math.sqrt(d_model), offset=True, levels=phase_levels)
        self.B = nn.Parameter(torch.view_as_real(torch.randn(d_state, dtype=torch.complex64)).clone())
        self.C = nn.Parameter(torch.view_as_real(torch.randn(d_state, dtype=torch.complex64)).clone())
        self.D = nn.Parameter(torch.ones(d_model))
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, batch_size: int) -> AUSSMState:
        zero = zero_state(self, batch_size, self.d_model, self.d_state)
        if self.conv is None:
            return AUSSMState(zero_state(self, batch_size, 0, self.d_model), torch.complex(zero, zero))
        return AUSSMState(self.conv.initial_state(batch_size), torch.complex(zero, zero))

    def transitions(self, x: Tensor, state: AUSSMState | None = None) -> Diagonal:
        """``exp(i theta)``, shape ``(B, L, E, N)``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        v, _ = self._convolved(self.in_proj(x).chunk(2, dim=-1)[0], state, None)
        return self._rotation(v, self._time_step(v))

    def _forward(self, x: Tensor, state: AUSSMState, cu_seqlens: Tensor | None) -> tuple[Tensor, AUSSMState]:
        v, z = self.in_proj(x).chunk(2, dim=-1)
        v, conv = self._convolved(v, state, cu_seqlens)
        dt, u = self._time_step(v), silu(v)
        drive = (dt * u).unsqueeze(-1) * _polar(self.B)
        states, final = scan(self._rotation(v, dt), drive, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        c = torch.view_as_real(_polar(self.C).conj().resolve_conj())
        y = torch.view_as_real(states).flatten(-2) @ c.flatten().to(states.real.dtype) + self.D * u
        return self.out_proj(y.to(x.dtype) * silu(z)), AUSSMState(conv, final)

    def _convolved(self, v: Tensor, state: AUSSMState, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        return (v, state.conv) if self.conv is None else self.conv(v, state.conv, cu_seqlens)

    def _time_step(self, v: Tensor) -> Tensor:
        """``(B, L, E)``."""
        return softplus(at_least_float32(self.dt_proj(self.x_proj(v))))

    def _rotation(self, v: Tensor, dt: Tensor) -> Diagonal:
        return self.pins.on(self.phase(v, dt if self.phase_dt else None))


def _polar(raw: Tensor) -> Tensor:
    """``(N,)`` complex numbers from ``(N, 2)``: moduli through softplus, and phases."""
    modulus, phase = at_least_float32(raw).unbind(-1)
    return torch.polar(softplus(modulus), phase)
