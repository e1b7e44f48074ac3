"""DeltaNet: the state is an associative memory that corrects what it recalls.

    S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K) ;   beta = sigma(W_b x)
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x)) ;   y = W_o RMSNorm(o)

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``. With ``beta = 2 sigma`` the transition can be a
reflection. Source: DeltaNet (arXiv 2406.06484), negative eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from typing import Unpack

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.householder import HouseholderLayer, HouseholderOptions
from statetrack.layers.options import inherits_options


@register("deltanet")
class DeltaNet(HouseholderLayer):
    """DeltaNet layer; options as in ``HouseholderLayer`` and ``DeltaLayer``.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> import torch
        >>> layer = DeltaNet(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 4]))
    """

    traits = Traits(
        structure="identity minus a rank-one matrix (generalised Householder)",
        spectrum="real: ones and 1 - beta, in (0, 1]; in (-1, 1] with negative_eigenvalues",
        input_dependent="key, beta (and with them the transition), value, query",
        one_layer=Claim(
            "at least", "parity, and permutation groups whose letters are swaps (negative_eigenvalues)", "arXiv 2411.12537"
        ),
        deeper=Claim(
            "at least", "cyclic and dihedral groups in 2 layers, every group in 4 (negative_eigenvalues)", "arXiv 2502.10297"
        ),
        parity=True,
        cost="O(H K V)",
        source="DeltaNet (arXiv 2406.06484); limits: arXiv 2411.12537, arXiv 2502.10297",
        needs={"negative_eigenvalues": True},
    )

    @inherits_options(HouseholderLayer, output_gate=False)
    def __init__(self, d_model: int, **shared: Unpack[HouseholderOptions]) -> None:
        super().__init__(d_model, n_householder=1, forget_gate=False, **shared)
