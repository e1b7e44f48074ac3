"""GDN-2, Gated DeltaNet-2: the delta rule with separate gates for what is erased and what is written.

    S_t = (I - k_t (b_t * k_t)^T) Diag(a_t) S_{t-1} + k_t (w_t * v_t)^T ;   o_t = S_t^T q_t / sqrt(K)
    b = sigma(W_b x) in R^K ;   w = sigma(W_w x) in R^V ;   a = exp(-exp(A_log) softplus(W_2 W_1 x + b_dt)) in R^K
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x)) ;   y = W_o (RMSNorm(o) * sigma(V_2 V_1 x + c))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``. With ``b = w = beta`` it is KDA. The transition
``Diag(a) - k (a * b * k)^T`` becomes symmetric when channels are scaled by ``sqrt(a * b)``, so its eigenvalues are real. Source:
Gated DeltaNet-2 (arXiv 2605.22791), negative eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from torch import Tensor, nn

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.channel_delta import ChannelDecay, ChannelDeltaLayer
from statetrack.layers.delta_base import DeltaFactors, start_linears_small
from statetrack.layers.precision import at_least_float32
from statetrack.scan import LowRankBackend


@register("gdn2")
class GDN2(ChannelDeltaLayer):
    """Gated DeltaNet-2 layer.

    Args:
        d_model: E, width of input and output.
        n_heads: H, independent states.
        d_head: K; None means ``E / H``, rounded up.
        expand_v: V as a multiple of K.
        short_conv: convolve queries, keys and values over the last 4 tokens.
        output_gate: multiply what is read by a sigmoid of two linear maps.
        bounded_decay: keep at least ``e^-5`` of every channel per token.
        negative_eigenvalues: b in (0, 2) instead of (0, 1): eigenvalues in (-1, 1).
        additive_input: whether values are written; without, the state starts at the identity and only the transitions act.
        backend: of the scan.

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
        one_layer=Claim(
            "at least",
            "parity, and permutation groups whose letters are swaps (negative_eigenvalues, in the limit a -> 1)",
            "arXiv 2411.12537",
        ),
        deeper=Claim("at least", "every regular language (negative_eigenvalues, in the limit a -> 1)", "arXiv 2502.10297"),
        parity=True,
        cost="O(H K V)",
        source="Gated DeltaNet-2 (arXiv 2605.22791); limits, with gates that agree: arXiv 2411.12537, arXiv 2502.10297",
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
        self.scale = 2.0 if negative_eigenvalues else 1.0
        self.decay = ChannelDecay(d_model, n_heads, self.d_head, self.d_value, bounded=bounded_decay)
        self.erase = nn.Linear(d_model, n_heads * self.d_head, bias=False)
        self.write = nn.Linear(d_model, n_heads * self.d_value, bias=False) if additive_input else None
        start_linears_small(self)

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        log_decay = self.decay(x)
        b = self.scale * at_least_float32(self.erase(x)).sigmoid().unflatten(-1, (self.n_heads, self.d_head))
        if self.write is not None:
            v = v * at_least_float32(self.write(x)).sigmoid().unflatten(-1, (self.n_heads, self.d_value))
        return DeltaFactors(k, v, log_decay.exp() * b * k, log_decay)
