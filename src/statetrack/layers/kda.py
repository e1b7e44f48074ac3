"""KDA, Kimi Delta Attention: the delta rule with a decay of its own for every channel.

    S_t = (I - beta_t k_t k_t^T) Diag(a_t) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K) ;   beta = sigma(W_b x)
    a = exp(-exp(A_log) softplus(W_2 W_1 x + b_dt)) ;   y = W_o (RMSNorm(o) * sigma(V_2 V_1 x + c))
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``; a is one number per head and channel. A bounded
decay is ``a = exp(-5 sigma(exp(A_log) (W_2 W_1 x + b_dt)))``. Source: Kimi Linear (arXiv 2510.26692), negative eigenvalues (arXiv
2411.12537).
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from statetrack.layers.base import Traits, register
from statetrack.layers.channel_delta import REGULAR, SWAPS, ChannelDecay, ChannelDeltaLayer, ChannelOptions
from statetrack.layers.delta_base import DeltaFactors, start_linears_small
from statetrack.layers.householder import WriteStrength
from statetrack.layers.options import inherits_options


@register("kda")
class KDA(ChannelDeltaLayer):
    """Kimi Delta Attention layer; further options as in ``ChannelDeltaLayer`` and ``DeltaLayer``.

    Args:
        bounded_decay: keep at least ``e^-5`` of every channel per token.
        negative_eigenvalues: beta in (0, 2) instead of (0, 1): eigenvalues in (-1, 1).

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> import torch
        >>> layer = KDA(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 4]))
    """

    traits = Traits(
        structure="(identity minus a rank-one matrix) times a positive diagonal",
        spectrum="real, in (0, 1); in (-1, 1) with negative_eigenvalues",
        input_dependent="decay of every channel, key, beta (and with them the transition), value, query",
        one_layer=SWAPS,
        deeper=REGULAR,
        parity=True,
        cost="O(H K V)",
        source="Kimi Linear (arXiv 2510.26692); limits, with decays that agree: arXiv 2411.12537, arXiv 2502.10297",
        needs={"negative_eigenvalues": True},
    )

    @inherits_options(ChannelDeltaLayer)
    def __init__(
        self, d_model: int, *, bounded_decay: bool = False, negative_eigenvalues: bool = False, **shared: Unpack[ChannelOptions]
    ) -> None:
        super().__init__(d_model, **shared)
        self.decay = ChannelDecay(d_model, self.n_heads, self.d_head, self.d_value, bounded=bounded_decay)
        self.strength = WriteStrength(d_model, self.n_heads, doubled=negative_eigenvalues)
        start_linears_small(self)

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        log_decay = self.decay(x)
        return DeltaFactors(self.strength(x) * k, v, log_decay.exp() * k, log_decay)
