"""DeltaNet: the state is an associative memory that corrects what it recalls.

    S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K) ;   beta = sigma(W_b x)
    q, k = unit length of silu(conv(W x)) per head ;   v = silu(conv(W_v x)) ;   y = W_o RMSNorm(o)

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``. With ``beta = 2 sigma`` the transition can be a
reflection. Source: DeltaNet (arXiv 2406.06484), negative eigenvalues (arXiv 2411.12537).
"""

from __future__ import annotations

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.householder import HouseholderLayer
from statetrack.scan import LowRankBackend


@register("deltanet")
class DeltaNet(HouseholderLayer):
    """DeltaNet layer.

    Args:
        d_model: E, width of input and output.
        n_heads: H, independent states.
        d_head: K; None means ``E / H``, rounded up.
        expand_v: V as a multiple of K.
        short_conv: convolve queries, keys and values over the last 4 tokens; published tracking runs leave it out.
        output_gate: multiply what is read by ``silu(W_g x)``.
        negative_eigenvalues: beta in (0, 2) instead of (0, 1): eigenvalues in (-1, 1].
        additive_input: whether values are written; without, the state starts at the identity and only the transitions act.
        backend: of the scan.

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

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int = 4,
        d_head: int | None = None,
        expand_v: int = 1,
        short_conv: bool = True,
        output_gate: bool = False,
        negative_eigenvalues: bool = False,
        additive_input: bool = True,
        backend: LowRankBackend = "auto",
    ) -> None:
        super().__init__(
            d_model,
            n_heads=n_heads,
            d_head=d_head,
            expand_v=expand_v,
            n_householder=1,
            forget_gate=False,
            short_conv=short_conv,
            output_gate=output_gate,
            negative_eigenvalues=negative_eigenvalues,
            additive_input=additive_input,
            backend=backend,
        )
