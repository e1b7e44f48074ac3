"""LRU, the linear recurrent unit: a fixed diagonal with eigenvalues drawn from a ring.

    h_t = lam * h_{t-1} + exp(gamma_log) * (B u_t) ;   lam = exp(-exp(nu_log) + i exp(theta_log))
    y_t = Re(C h_t) + D * u_t ;   out = glu(gelu(y))

Letters: E = ``d_model``, N = ``d_state`` complex modes. Source: Resurrecting recurrent neural networks for long sequences
(arXiv 2303.06349).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import register
from statetrack.layers.fixed import FixedDiagonal, time_invariant_traits
from statetrack.scan import Backend

_MARGIN = 1e-6


@register("lru")
class LRU(FixedDiagonal):
    """LRU layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, complex modes.
        r_min: smallest modulus of the eigenvalues at the start; moduli are uniform on the ring by area.
        r_max: largest modulus at the start.
        max_phase: largest phase at the start, in radians; phases are uniform from 0.
        glu: mix channels with GELU and a gated linear unit behind the state space.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, moduli that do not rise within [0, 1], or a phase that is not positive.

    Example:
        >>> layer = LRU(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]))
    """

    traits = time_invariant_traits(
        structure="diagonal", spectrum="fixed, in the open unit disc", cost="O(N)", paper="LRU (arXiv 2303.06349)"
    )
    float32_parameters = ("nu_log", "theta_log", "gamma_log")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 6.28,
        glu: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(d_model, d_state=d_state, glu=glu, backend=backend)
        if not (0 <= r_min < r_max <= 1 and max_phase > 0):
            raise InvalidInputError(f"LRU needs 0 <= r_min < r_max <= 1 and max_phase > 0; got {r_min}, {r_max} and {max_phase}.")
        # The logarithms of a modulus of 0 or 1, or of a phase of 0, are not finite.
        area = torch.empty(d_state).uniform_(r_min**2, r_max**2).clamp(_MARGIN, 1 - _MARGIN)
        phase = max_phase * torch.rand(d_state).clamp(min=_MARGIN)
        self.nu_log = nn.Parameter((-0.5 * area.log()).log())
        self.theta_log = nn.Parameter(phase.log())
        self.gamma_log = nn.Parameter(0.5 * torch.log1p(-area))
        b = torch.complex(torch.randn(d_state, d_model), torch.randn(d_state, d_model)) / math.sqrt(2 * d_model)
        c = torch.complex(torch.randn(d_model, d_state), torch.randn(d_model, d_state)) / math.sqrt(d_state)
        self._start(b, c)

    def _modes(self) -> tuple[Tensor, Tensor]:
        return torch.polar((-self.nu_log.exp()).exp(), self.theta_log.exp()), self.gamma_log.exp()
