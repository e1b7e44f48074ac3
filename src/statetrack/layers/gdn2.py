"""GDN-2, Gated DeltaNet-2: the delta rule with separate gates for what is erased and what is written.

    S_t = (I - k_t (b_t * k_t)^T) Diag(a_t) S_{t-1} + k_t (w_t * v_t)^T ;   o_t = S_t^T q_t / sqrt(K)
    b = sigma(W_b x) in R^K ;   w = sigma(W_w x) in R^V ;   a = exp(-exp(A_log) softplus(W_2 W_1 x + b_dt)) in R^K
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x)) ;   y = W_o (RMSNorm(o) * sigma(V_2 V_1 x + c))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``. With ``b = w = beta`` it is KDA. The transition
``Diag(a) - k (a * b * k)^T`` becomes symmetric when channels are scaled by ``sqrt(a * b)``, so its eigenvalues are real. Source:
Gated DeltaNet-2 (arXiv 2605.22791), negative eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from statetrack.layers.base import Traits, register
from statetrack.layers.channel_delta import REGULAR, SWAPS, ChannelDecay, ChannelDeltaLayer, ChannelOptions
from statetrack.layers.delta_base import DeltaFactors, start_linears_small
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import at_least_float32


@register("gdn2")
class GDN2(ChannelDeltaLayer):
    """Gated DeltaNet-2 layer; further options as in ``ChannelDeltaLayer`` and ``DeltaLayer``.

    Args:
        bounded_decay: keep at least ``e^-5`` of every channel per token.
        negative_eigenvalues: b in (0, 2) instead of (0, 1): eigenvalues in (-1, 1).

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> import torch
        >>> layer = GDN2(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 4]))
    """

    traits = Traits(
        structure="(identity minus a rank-one matrix, not symmetric) times a positive diagonal",
        spectrum="real, in (0, 1); in (-1, 1) with negative_eigenvalues",
        input_dependent="decay and erasure of every channel, key (and with them the transition), writing gate, value, query",
        one_layer=SWAPS,
        deeper=REGULAR,
        parity=True,
        cost="O(H K V)",
        source="Gated DeltaNet-2 (arXiv 2605.22791); limits, with gates that agree: arXiv 2411.12537, arXiv 2502.10297",
        needs={"negative_eigenvalues": True},
    )

    @inherits_options(ChannelDeltaLayer)
    def __init__(
        self, d_model: int, *, bounded_decay: bool = False, negative_eigenvalues: bool = False, **shared: Unpack[ChannelOptions]
    ) -> None:
        super().__init__(d_model, **shared)
        self.scale = 2.0 if negative_eigenvalues else 1.0
        self.decay = ChannelDecay(d_model, self.n_heads, self.d_head, self.d_value, bounded=bounded_decay)
        self.erase = nn.Linear(d_model, self.n_heads * self.d_head, bias=False)
        self.write = nn.Linear(d_model, self.n_heads * self.d_value, bias=False) if self.additive_input else None
        start_linears_small(self)

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        log_decay = self.decay(x)
        b = self.scale * at_least_float32(self.erase(x)).sigmoid().unflatten(-1, (self.n_heads, self.d_head))
        if self.write is not None:
            v = v * at_least_float32(self.write(x)).sigmoid().unflatten(-1, (self.n_heads, self.d_value))
        return DeltaFactors(k, v, log_decay.exp() * b * k, log_decay)
