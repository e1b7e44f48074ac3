"""KDA, Kimi Delta Attention: the delta rule with a decay of its own for every channel.

    S_t = (I - beta_t k_t k_t^T) Diag(a_t) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K) ;   beta = sigma(W_b x)
    a = exp(-exp(A_log) softplus(W_2 W_1 x + b_dt)) ;   y = W_o (RMSNorm(o) * sigma(V_2 V_1 x + c))
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``; a is one number per head and channel. A bounded
decay is ``a = exp(-5 sigma(exp(A_log) (W_2 W_1 x + b_dt)))``. Source: Kimi Linear (arXiv 2510.26692), negative eigenvalues (arXiv
2411.12537).
"""

from __future__ import annotations

from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.channel_delta import ChannelDecay, ChannelDeltaLayer
from statetrack.layers.delta_base import DeltaFactors, start_linears_small
from statetrack.layers.householder import WriteStrength
from statetrack.scan import LowRankBackend


@register("kda")
class KDA(ChannelDeltaLayer):
    """Kimi Delta Attention layer.

    Args:
        d_model: E, width of input and output.
        n_heads: H, independent states.
        d_head: K; None means ``E / H``, rounded up.
        expand_v: V as a multiple of K.
        short_conv: convolve queries, keys and values over the last 4 tokens; published tracking runs leave it out.
        output_gate: multiply what is read by a sigmoid of two linear maps.
        bounded_decay: keep at least ``e^-5`` of every channel per token.
        negative_eigenvalues: beta in (0, 2) instead of (0, 1): eigenvalues in (-1, 1).
        additive_input: whether values are written; without, the state starts at the identity and only the transitions act.
        backend: of the scan.

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
        one_layer=Claim(
            "at least",
            "parity, and permutation groups whose letters are swaps (negative_eigenvalues, in the limit a -> 1)",
            "arXiv 2411.12537",
        ),
        deeper=Claim("at least", "every regular language (negative_eigenvalues, in the limit a -> 1)", "arXiv 2502.10297"),
        parity=True,
        cost="O(H K V)",
        source="Kimi Linear (arXiv 2510.26692); limits, with decays that agree: arXiv 2411.12537, arXiv 2502.10297",
        needs={"negative_eigenvalues": True},
    )

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int = 4,
        d_head: int | None = None,
        expand_v: int = 1,
        short_conv: bool = True,
        output_gate: bool = True,
        bounded_decay: bool = False,
        negative_eigenvalues: bool = False,
        additive_input: bool = True,
        backend: LowRankBackend = "auto",
    ) -> None:
        super().__init__(
            d_model,
            n_heads=n_heads,
            d_head=d_head,
            expand_v=expand_v,
            short_conv=short_conv,
            output_gate=output_gate,
            additive_input=additive_input,
            backend=backend,
        )
        self.decay = ChannelDecay(d_model, n_heads, self.d_head, self.d_value, bounded=bounded_decay)
        self.strength = WriteStrength(d_model, n_heads, doubled=negative_eigenvalues)
        start_linears_small(self)

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        log_decay = self.decay(x)
        return DeltaFactors(self.strength(x) * k, v, log_decay.exp() * k, log_decay)
