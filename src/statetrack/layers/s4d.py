"""S4D: one fixed diagonal state space per channel.

    h_t[c,n] = exp(dt_c A[c,n]) h_{t-1}[c,n] + gain[c,n] u_t[c] ;   gain = (exp(dt A) - 1) / A ;   A = -exp(log_A_real) + i A_imag
    y_t[c]   = 2 Re sum_n C[c,n] h_t[c,n] + D[c] u_t[c] ;   out = glu(gelu(y))

Letters: E = ``d_model`` channels, N = ``d_state`` complex modes per channel, each of which stands for a conjugate pair. Every
channel is a head. Source: S4D (arXiv 2206.11893).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer, register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.discretisation import zero_order_hold
from statetrack.layers.fixed import time_invariant_traits, zero_modes
from statetrack.layers.glu import GatedMixing
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.scan import Backend
from statetrack.scan.time_invariant import Response, time_invariant_scan
from statetrack.structures import Diagonal

Frequencies = Literal["lin", "inv"]


class S4DState(NamedTuple):
    """Attributes:
    h: ``(B, E, N)`` complex.
    """

    h: Tensor


def frequencies(n: int, kind: Frequencies) -> Tensor:
    """The published imaginary parts ``(n,)`` of A: ``"lin"``: ``pi k``; ``"inv"``: ``(2n / pi) (2n / (2k + 1) - 1)``."""
    k = torch.arange(n, dtype=torch.float64)
    return math.pi * k if kind == "lin" else 2 * n / math.pi * (2 * n / (2 * k + 1) - 1)


@register("s4d")
class S4D(KeepsFloat32, Layer):
    """S4D layer. It runs as a convolution inside chunks, with states only in between.

    Args:
        d_model: E, width of input and output.
        d_state: N, complex modes per channel (half of the state size that the paper counts).
        init: imaginary parts of A at the start: ``"lin"`` (Fourier) or ``"inv"`` (the approximation of HiPPO-LegS).
        glu: mix channels with GELU and a gated linear unit; without it channels stay apart.
        chunk_size: most tokens that are convolved at once.
        backend: of the scan from chunk to chunk.

    Raises:
        InvalidInputError: a size below 1, or an unknown ``init``.

    Example:
        >>> layer = S4D(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 4]))
    """

    traits = time_invariant_traits(
        structure="diagonal", spectrum="fixed, in the open unit disc", cost="O(E N)", paper="S4D (arXiv 2206.11893)"
    )
    float32_parameters = ("log_dt", "log_A_real", "A_imag")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 32,
        init: Frequencies = "lin",
        glu: bool = True,
        chunk_size: int = 64,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, chunk_size) < 1:
            raise InvalidInputError(
                f"d_model, d_state and chunk_size must be at least 1; got {d_model}, {d_state}, {chunk_size}."
            )
        checked("init", init, Frequencies)
        self.d_model, self.d_state, self.chunk_size, self.backend = d_model, d_state, chunk_size, backend
        self.log_dt = nn.Parameter(torch.empty(d_model).uniform_(math.log(1e-3), math.log(1e-1)))
        self.log_A_real = nn.Parameter(torch.full((d_model, d_state), math.log(0.5)))
        self.A_imag = nn.Parameter(frequencies(d_state, init).float().repeat(d_model, 1))
        # Real and imaginary part apart: conversions of a module's dtype leave complex parameters alone.
        self.C = nn.Parameter(torch.randn(d_model, d_state, 2) * math.sqrt(0.5))
        self.D = nn.Parameter(torch.randn(d_model))
        self.mix = GatedMixing(d_model, approximate="none") if glu else nn.Identity()

    def initial_state(self, batch_size: int) -> S4DState:
        return S4DState(zero_modes(self, batch_size, self.d_model, self.d_state))

    def transitions(self, x: Tensor, state: S4DState | None = None) -> Diagonal:
        decay, _ = zero_order_hold(*self._rates())
        return Diagonal(decay.expand(*x.shape[:2], *decay.shape))

    def _forward(self, x: Tensor, state: S4DState, cu_seqlens: Tensor | None) -> tuple[Tensor, S4DState]:
        u = at_least_float32(x)
        y, final = time_invariant_scan(
            self._response,
            u.unsqueeze(-1),
            state.h,
            cu_seqlens=cu_seqlens,
            chunk_size=self.chunk_size,
            backend=self.backend,
        )
        y = (y.squeeze(-1) + self.D * u).to(x.dtype)
        return self.mix(y), S4DState(final)

    def _rates(self) -> tuple[Tensor, Tensor]:
        """A ``(E, N)`` and dt ``(E, 1)``."""
        return torch.complex(-self.log_A_real.exp(), self.A_imag), self.log_dt.exp().unsqueeze(-1)

    def _response(self, size: int) -> Response:
        a, dt = self._rates()
        _, gain = zero_order_hold(a, dt)
        steps = torch.arange(size + 1, device=dt.device, dtype=dt.dtype).view(-1, 1, 1)
        powers = torch.polar((steps * (dt * a.real)).exp(), steps * (dt * a.imag))  # (T + 1, E, N)
        c = 2 * torch.view_as_complex(at_least_float32(self.C))
        written = gain * powers[:-1]
        return Response(
            powers=Diagonal(powers),
            kernel=(c * written).real.sum(-1).mT,
            write=torch.view_as_real(written).flatten(-2).permute(1, 2, 0),
            # Re(c h) = Re c Re h - Im c Im h.
            read=torch.view_as_real((c * powers[1:]).conj().resolve_conj()).flatten(-2).transpose(0, 1),
        )
