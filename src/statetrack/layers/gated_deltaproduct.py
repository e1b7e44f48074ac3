"""Gated DeltaProduct: a decay of the whole state, then several steps of the delta rule per token.

    S <- a_t S ;   for j = 1..n:  S <- S + beta_j k_j (v_j - S^T k_j)^T ;   o_t = S^T q_t / sqrt(K)
    A_t = a_t (I - beta_n k_n k_n^T) ... (I - beta_1 k_1 k_1^T)
    a = exp(-exp(A_log) softplus(W_a x + b_dt)) ;   beta = 2 sigma(W_b x) ;   y = W_o (RMSNorm(o) * silu(W_g x))
    q, k_j = unit length of silu(conv(W x)) per head ;   v_j = silu(conv(W_v x))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``, n = ``n_householder``; a is one number per
head. Source: DeltaProduct (arXiv 2502.10297), gate of Gated DeltaNet (arXiv 2412.06464).
"""

from __future__ import annotations

from typing import Unpack

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.householder import HouseholderLayer, HouseholderOptions
from statetrack.layers.options import inherits_options


@register("gated-deltaproduct")
class GatedDeltaProduct(HouseholderLayer):
    """Gated DeltaProduct layer; options as in ``HouseholderLayer`` and ``DeltaLayer``.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> import torch
        >>> layer = GatedDeltaProduct(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 8]))
    """

    traits = Traits(
        structure="decay times a product of n generalised Householder matrices",
        spectrum="open unit disc, at most floor(n / 2) complex pairs; real for n = 1",
        input_dependent="decay, keys, betas (and with them the transition), values, query",
        one_layer=Claim(
            "at least",
            "finite subgroups of O(n), and S_m for m <= n + 1 (negative_eigenvalues, in the limit a -> 1)",
            "arXiv 2502.10297",
        ),
        deeper=Claim("at least", "every regular language, for every n (negative_eigenvalues)", "arXiv 2502.10297"),
        parity=True,
        cost="O(n H K V)",
        source="DeltaProduct (arXiv 2502.10297)",
    )

    @inherits_options(HouseholderLayer, expand_v=2, negative_eigenvalues=True)
    def __init__(self, d_model: int, *, n_householder: int = 2, **shared: Unpack[HouseholderOptions]) -> None:
        super().__init__(d_model, n_householder=n_householder, forget_gate=True, **shared)
