"""Polarized Mamba: Mamba with two more states per channel, one that keeps everything and one that keeps nothing.

    a_t[c] = [1; exp(dt_t[c] A[c]); 0]          over n = ones, learned, zeros
    h_t[c,n] = a_t[c,n] h_{t-1}[c,n] + dt_t[c] B_t[n] v_t[c] ;   everything else as in Mamba

Letters: C = channels, N = ``d_state`` learned states per channel; c counts channels, n all states, for each of which B and C of
Mamba have an entry. The states at 1 are running sums, without bound on long inputs; those at 0 pass their drive on. Source:
Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and Over-smoothing (arXiv 2501.00658).
"""

from __future__ import annotations

from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.mamba import Mamba
from statetrack.layers.pins import Pins
from statetrack.scan import Backend
from statetrack.structures import Diagonal

_SOFT_ZERO = 1000.0
"""The published stand-in for 0 is ``exp(-1000 dt)``."""


@register("polarized-mamba")
class PolarizedMamba(Mamba):
    """Mamba layer with pinned eigenvalues.

    Args:
        d_model: E, width of input and output.
        d_state: N, learned states per channel.
        n_ones: states per channel whose eigenvalue is 1.
        n_zeros: states per channel whose eigenvalue is 0.
        exact_zero: pin at 0; otherwise at ``exp(-1000 dt)``, as published, which is far from 0 where time steps are short (0.37
            at ``dt = 0.001``).
        expand: number of channels as a multiple of E.
        d_conv: width of the causal convolution.
        dt_rank: R, rank of the time-step projection; None means ``ceil(E / 16)``.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, or a negative number of pinned states.

    Example:
        >>> import torch
        >>> layer = PolarizedMamba(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 16, 6]))
    """

    traits = Traits(
        structure="diagonal",
        spectrum="real: 1, 0 and learned in (0, 1)",
        input_dependent="time step (and with it the learned diagonal), B, C",
        one_layer=Claim("at most", "star-free (aperiodic) automata", "arXiv 2405.17394"),
        deeper=Claim("at most", "star-free automata; no non-trivial group", "arXiv 2405.17394"),
        parity=False,
        cost="O(C N)",
        source="arXiv 2501.00658; limits of non-negative spectra: arXiv 2405.17394",
    )

    pinnable = False

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 16,
        n_ones: int = 1,
        n_zeros: int = 1,
        exact_zero: bool = True,
        expand: int = 2,
        d_conv: int = 4,
        dt_rank: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        if d_state < 1 or min(n_ones, n_zeros) < 0:
            raise InvalidInputError(
                f"d_state must be at least 1, n_ones and n_zeros at least 0; got {d_state}, {n_ones}, {n_zeros}."
            )
        size = n_ones + d_state + n_zeros
        super().__init__(d_model, d_state=size, expand=expand, d_conv=d_conv, dt_rank=dt_rank, backend=backend)
        self.n_ones, self.n_zeros, self.exact_zero = n_ones, n_zeros, exact_zero
        self.A_log = nn.Parameter(self.A_log.detach()[:, :d_state].clone())

    def _decay(self, dt: Tensor) -> Diagonal:
        zero = None if self.exact_zero else (-_SOFT_ZERO * dt).exp().unsqueeze(-1)
        return Pins(self.n_ones, self.n_zeros).around(super()._decay(dt).value, zero)
