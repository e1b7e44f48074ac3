"""Negative Mamba: Mamba whose eigenvalues are stretched from (0, 1) to (-1, 1).

    h_t[c,n] = (2 exp(dt_t[c] A[c,n]) - 1) h_{t-1}[c,n] + dt_t[c] B_t[n] v_t[c] ;   everything else as in Mamba

Letters: C = channels, N = ``d_state`` per channel. A large time step now flips the sign of a state, which is what parity needs.
Source: Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.mamba import Mamba
from statetrack.structures import Diagonal


@register("negative-mamba")
class NegativeMamba(Mamba):
    """Mamba layer with eigenvalues in (-1, 1); its options are those of ``Mamba``.

    Eigenvalues start close to 1, since time steps start small, and reach -1 only in the limit ``dt |A| -> inf``, or where
    rounding takes them there.

    Example:
        >>> import torch
        >>> layer = NegativeMamba(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 16, 4]))
    """

    traits = Traits(
        structure="diagonal",
        spectrum="real, in (-1, 1)",
        input_dependent="time step (and with it the diagonal), B, C",
        one_layer=Claim("exact", "groups C_2^m (eigenvalues at, or in the limit of, -1)", "arXiv 2603.01959"),
        deeper=Claim(
            "exact",
            "k layers: groups with a subnormal series of length k whose factors are C_2^m; only 2-groups",
            "derived from arXiv 2603.01959",
        ),
        parity=True,
        cost="O(C N)",
        source="arXiv 2411.12537; limits: arXiv 2603.01959",
    )

    def _decay(self, dt: Tensor) -> Diagonal:
        return Diagonal(2 * super()._decay(dt).value - 1)
