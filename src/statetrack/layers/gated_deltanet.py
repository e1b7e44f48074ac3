"""Gated DeltaNet: the delta rule with a decay of the whole state.

    S_t = a_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K)
    a = exp(-exp(A_log) softplus(W_a x + b_dt)) ;   beta = sigma(W_b x) ;   y = W_o (RMSNorm(o) * silu(W_g x))
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``; a is one number per head. Source: Gated DeltaNet (arXiv
2412.06464), negative eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from typing import Unpack

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.householder import HouseholderLayer, HouseholderOptions
from statetrack.layers.options import inherits_options


@register("gated-deltanet")
class GatedDeltaNet(HouseholderLayer):
    """Gated DeltaNet layer; options as in ``HouseholderLayer`` and ``DeltaLayer``.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> import torch
        >>> layer = GatedDeltaNet(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 8]))
    """

    traits = Traits(
        structure="decay times (identity minus a rank-one matrix)",
        spectrum="real: a and a (1 - beta), in (0, 1); in (-1, 1) with negative_eigenvalues",
        input_dependent="decay, key, beta (and with them the transition), value, query",
        one_layer=Claim(
            "at least",
            "parity, and permutation groups whose letters are swaps (negative_eigenvalues, in the limit a -> 1)",
            "arXiv 2411.12537",
        ),
        deeper=Claim("at least", "every regular language (negative_eigenvalues)", "arXiv 2502.10297"),
        parity=True,
        cost="O(H K V)",
        source="Gated DeltaNet (arXiv 2412.06464); limits: arXiv 2411.12537, arXiv 2502.10297",
        needs={"negative_eigenvalues": True},
    )

    @inherits_options(HouseholderLayer, expand_v=2)
    def __init__(self, d_model: int, **shared: Unpack[HouseholderOptions]) -> None:
        super().__init__(d_model, n_householder=1, forget_gate=True, **shared)
