"""LinOSS: fixed, uncoupled oscillators.

    y'' = -A y + B u ,   state [z; y] = [velocity; position] of each oscillator, time step dt
    im:     s = 1 / (1 + dt^2 A) ;   M = [[s, -dt A s], [dt s, s]] ;               F = [s dt B u ; s dt^2 B u]
    imex:                            M = [[1, -dt A], [dt, 1 - dt^2 A]] ;          F = [dt B u ; dt^2 B u]
    [z; y]_t = M [z; y]_{t-1} + F_t ;   o_t = Re(C y_t) + D * u_t ;   out = glu(gelu(o))

Letters: E = ``d_model``, P = ``d_state`` oscillators, A = relu(A_diag), dt = sigmoid(steps). M is real and B complex, hence so is
the state. Source: Oscillatory state-space models (arXiv 2410.03943).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.fixed import ModalLayer, time_invariant_traits, zero_modes
from statetrack.scan.backends import PlainBackend
from statetrack.scan.time_invariant import Response, time_invariant_scan
from statetrack.structures import BlockDiagonal

Scheme = Literal["im", "imex"]


class LinOSSState(NamedTuple):
    """Attributes:
    h: ``(B, 1, 2 P)`` complex, velocity and position of the first oscillator, then of the second, and so on.
    """

    h: Tensor


def _powers(matrix: Tensor, last: int) -> Tensor:
    """``(last + 1, P, 2, 2)``: powers 0 to ``last`` of ``matrix (P, 2, 2)``, by doubling."""
    table, step = torch.eye(2, dtype=matrix.dtype, device=matrix.device).expand(1, *matrix.shape), matrix
    while len(table) <= last:
        table, step = torch.cat([table, table @ step]), step @ step
    return table[: last + 1]


@register("linoss")
class LinOSS(ModalLayer):
    """LinOSS layer. It runs as a convolution inside chunks, with states only in between.

    Args:
        d_model: E, width of input and output.
        d_state: P, oscillators.
        scheme: ``"im"`` (implicit, dissipates) or ``"imex"`` (implicit-explicit, keeps volume; stable while ``dt^2 A <= 4``,
            as at the start, which training may leave).
        glu: mix channels with GELU and a gated linear unit behind the state space.
        chunk_size: most tokens that are convolved at once.
        backend: of the scan from chunk to chunk.

    Raises:
        InvalidInputError: a size below 1, or an unknown ``scheme``.

    Example:
        >>> layer = LinOSS(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 8]))
    """

    traits = time_invariant_traits(
        structure="2 x 2 blocks",
        spectrum="fixed conjugate pairs: modulus (1 + dt^2 A)^-1/2 (im), or 1 while dt^2 A <= 4 (imex)",
        cost="O(P)",
        paper="LinOSS (arXiv 2410.03943)",
    )
    float32_parameters = ("A_diag", "steps")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        scheme: Scheme = "im",
        glu: bool = True,
        chunk_size: int = 32,
        backend: PlainBackend = "auto",
    ) -> None:
        super().__init__(d_model, d_state=d_state, glu=glu, backend=backend)
        if chunk_size < 1:
            raise InvalidInputError(f"chunk_size must be at least 1; got {chunk_size}.")
        self.scheme, self.chunk_size = checked("scheme", scheme, Scheme), chunk_size
        self.A_diag = nn.Parameter(torch.rand(d_state))
        self.steps = nn.Parameter(torch.rand(d_state))
        b, c = torch.rand(2, d_state, d_model) * 2 - 1, torch.rand(2, d_model, d_state) * 2 - 1
        self._start(torch.complex(*b) / math.sqrt(d_model), torch.complex(*c) / math.sqrt(d_state))

    def initial_state(self, batch_size: int) -> LinOSSState:
        return LinOSSState(zero_modes(self, batch_size, 1, 2 * self.d_state))

    def transitions(self, x: Tensor, state: LinOSSState | None = None) -> BlockDiagonal:
        matrix, _ = self._oscillators()
        return BlockDiagonal(matrix.expand(*x.shape[:2], 1, *matrix.shape))

    def _forward(self, x: Tensor, state: LinOSSState, cu_seqlens: Tensor | None) -> tuple[Tensor, LinOSSState]:
        positions, final = time_invariant_scan(
            self._response,
            torch.view_as_real(self._drive(x)),
            state.h,
            cu_seqlens=cu_seqlens,
            chunk_size=self.chunk_size,
            backend=self.backend,
        )
        return self._output(torch.view_as_complex(positions.contiguous()).unsqueeze(2), x), LinOSSState(final)

    def _oscillators(self) -> tuple[Tensor, Tensor]:
        """M ``(P, 2, 2)``, and what an input of 1 adds to velocity and position ``(P, 2)``."""
        a, dt = self.A_diag.relu(), self.steps.sigmoid()
        force = torch.stack([dt, dt.square()], dim=-1)
        if self.scheme == "imex":
            entries = [torch.ones_like(a), -dt * a, dt, 1 - dt.square() * a]
        else:
            s = 1 / (1 + dt.square() * a)
            entries, force = [s, -dt * a * s, dt * s, s], s.unsqueeze(-1) * force
        return torch.stack(entries, dim=-1).unflatten(-1, (2, 2)), force

    def _response(self, size: int) -> Response:
        matrix, force = self._oscillators()
        powers = _powers(matrix, size)
        written = (powers[:-1] @ force.unsqueeze(-1)).squeeze(-1)  # (T, P, 2)
        return Response(
            powers=BlockDiagonal(powers.unsqueeze(1)),
            kernel=written[..., 1].mT,
            write=written.permute(1, 2, 0),
            read=powers[1:, :, 1].transpose(0, 1),
        )
