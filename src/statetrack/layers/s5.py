"""S5: one fixed diagonal state space for all channels, started from the normal part of HiPPO-LegS.

    h_t = decay * h_{t-1} + gain * (B u_t) ;   y_t = 2 Re(C h_t) + D * u_t ;   out = glu(gelu(y))
    zero-order hold:  decay = exp(dt Lam) ,                           gain = (decay - 1) / Lam
    bilinear:         decay = (1 + dt Lam / 2) / (1 - dt Lam / 2) ,   gain = dt / (1 - dt Lam / 2)

Letters: E = ``d_model``, N = ``d_state`` complex modes, dt = a time step per mode, M = modes before one of each conjugate pair is
dropped: 2 N, or N if none is. Source: S5 (arXiv 2208.04933).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.discretisation import bilinear, zero_order_hold
from statetrack.layers.fixed import FixedDiagonal, time_invariant_traits
from statetrack.scan import Backend

Discretization = Literal["zoh", "bilinear"]

_LARGEST_REAL_PART = -1e-4
_STD_OF_TRUNCATED_NORMAL = 0.87962566103423978


def normal_hippo(size: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(size,)``, imaginary parts ascending, and eigenvectors ``(size, size)`` of the normal part of HiPPO-LegS."""
    n = torch.arange(size, dtype=torch.float64)
    root = (2 * n + 1).sqrt()
    legs = -(torch.outer(root, root).tril(-1) + torch.diag(n + 1))
    rank_one = torch.outer((n + 0.5).sqrt(), (n + 0.5).sqrt())
    normal = legs + rank_one
    imaginary, vectors = torch.linalg.eigh(-1j * (normal - normal.diagonal().mean() * torch.eye(size)))
    return torch.complex(normal.diagonal().mean().expand(size), imaginary), vectors


def lecun_normal(rows: int, columns: int, fan_in: int) -> Tensor:
    """Normal numbers cut off at two deviations, with standard deviation ``fan_in^-1/2``."""
    std = 1 / math.sqrt(fan_in) / _STD_OF_TRUNCATED_NORMAL
    return nn.init.trunc_normal_(torch.empty(rows, columns, dtype=torch.float64), std=std, a=-2 * std, b=2 * std)


@register("s5")
class S5(FixedDiagonal):
    """S5 layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, complex modes that are kept.
        n_blocks: HiPPO matrices along the diagonal of the start; the paper takes 8 for long sequences.
        conjugate_pairs: keep one mode of each conjugate pair; without, all modes are kept and outputs are ``Re(C h)``.
        discretization: ``"zoh"`` (zero-order hold) or ``"bilinear"``.
        clip: hold the real parts of Lam below -1e-4, so that no mode can grow.
        glu: mix channels with GELU and a gated linear unit behind the state space.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, ``n_blocks`` that does not divide ``d_state``, or an unknown ``discretization``.

    Example:
        >>> layer = S5(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]))
    """

    traits = time_invariant_traits(
        structure="diagonal",
        spectrum="fixed, in the open unit disc (kept there by clip=True)",
        cost="O(N)",
        paper="S5 (arXiv 2208.04933)",
    )
    float32_parameters = ("Lambda_re", "Lambda_im", "log_step")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        n_blocks: int = 1,
        conjugate_pairs: bool = True,
        discretization: Discretization = "zoh",
        clip: bool = False,
        glu: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(d_model, d_state=d_state, glu=glu, backend=backend)
        checked("discretization", discretization, Discretization)
        if n_blocks < 1 or d_state % n_blocks:
            raise InvalidInputError(f"n_blocks must divide d_state; got {n_blocks} and {d_state}.")
        self.discretization, self.clip = discretization, clip
        self.readout_factor = 2.0 if conjugate_pairs else 1.0
        size = 2 * d_state if conjugate_pairs else d_state
        kept = d_state // n_blocks
        poles, vectors = normal_hippo(size // n_blocks)
        poles, v = poles[:kept].repeat(n_blocks), torch.block_diag(*[vectors[:, :kept]] * n_blocks)
        self.Lambda_re, self.Lambda_im = nn.Parameter(poles.real.float()), nn.Parameter(poles.imag.float())
        self.log_step = nn.Parameter(torch.empty(d_state).uniform_(math.log(1e-3), math.log(1e-1)))
        c = torch.complex(lecun_normal(d_model, size, size), lecun_normal(d_model, size, size))
        self._start(v.mH @ lecun_normal(size, d_model, size).to(v.dtype), c @ v)

    def _modes(self) -> tuple[Tensor, Tensor]:
        re = self.Lambda_re.clamp(max=_LARGEST_REAL_PART) if self.clip else self.Lambda_re
        method = zero_order_hold if self.discretization == "zoh" else bilinear
        return method(torch.complex(re, self.Lambda_im), self.log_step.exp())
