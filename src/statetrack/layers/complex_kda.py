"""Complex KDA: a signed decay and a doubled beta give the delta rule rotations, hence complex eigenvalues.

    S_t = (I - beta_t k_t k_t^T) Diag(a_t) S_{t-1} + beta_t k_t v_t^T ;   o_t = S_t^T q_t / sqrt(K) ;   beta = 2 sigma(W_b x + b)
    r = tanh(u / 2) = 2 sigma(u) - 1 ;   a = sign(r) (e + (1 - e) |r|) with e = e^-5 ;   u = exp(A_log) (W_2 W_1 x + b_a)
    q, k = unit length of conv(W x) per head ;   v = silu(conv(W_v x)) ;   y = W_o (RMSNorm(o) * sigma(V_2 V_1 x + c))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``; a is one number in [-1, 1] per head and channel. The
floor e keeps ``log |a|`` and its slope finite where a changes its sign. Queries and keys have no SiLU, which would make them
positive. The scan runs on ``|a|``, with the signs of a moved to keys and queries. Source: Complex KDA (arXiv 2609.24797).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import torch
from torch import Tensor, nn

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.channel_delta import LEAST_LOG_DECAY, ChannelDeltaLayer, ChannelGate, ChannelOptions
from statetrack.layers.delta_base import DeltaFactors, DeltaState
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import at_least_float32
from statetrack.scan.signs import running_signs
from statetrack.structures import DiagonalPlusLowRank


class SignedDecay(NamedTuple):
    """Attributes:
    sign: ``(B, L, H, K)``, 1 or -1, without gradient.
    log: ``(B, L, H, K)``, log of the modulus, in [-5, 0].
    """

    sign: Tensor
    log: Tensor


class SignedGate(ChannelGate):
    """The signed decay of every channel. It starts with mixed signs, ``b_a`` uniform in (-1.5, 1.5), and ``A_log`` at 0."""

    def __init__(self, d_model: int, n_heads: int, d_head: int, rank: int) -> None:
        super().__init__(d_model, rank, torch.zeros(n_heads), torch.empty(n_heads, d_head).uniform_(-1.5, 1.5))
        last = self.project[-1]
        assert isinstance(last, nn.Linear)
        last.weight.data.mul_(0.1)

    def forward(self, x: Tensor) -> SignedDecay:
        r = (self.rate * self.logits(x) / 2).tanh()
        # 1 at |r| = 1 to the last bit, so that a saturated gate forgets nothing.
        modulus = 1 - (1 - math.exp(LEAST_LOG_DECAY)) * (1 - r.abs())
        return SignedDecay(torch.where(r < 0, -1.0, 1.0).to(r.dtype), modulus.log())


@register("complex-kda")
class ComplexKDA(ChannelDeltaLayer):
    """Complex KDA layer; further options as in ``ChannelDeltaLayer`` and ``DeltaLayer``.

    Args:
        doubled_beta: beta in (0, 2); in (0, 1), the published ablation, eigenvalues are real.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> layer = ComplexKDA(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 4]))
    """

    traits = Traits(
        structure="(identity minus a rank-one matrix) times a signed diagonal",
        spectrum="closed unit disc, norm at most 1, at most one complex pair",
        input_dependent="signed decay of every channel, key, beta (and with them the transition), value, query",
        one_layer=Claim(
            "at least", "finite groups of rotations of 3-space (Z_n, D_n, A_4, S_4, A_5), but not S_5", "arXiv 2609.24797"
        ),
        deeper=Claim("at least", "every finite group in 3 layers", "arXiv 2609.24797"),
        parity=True,
        cost="O(H K V)",
        source="Complex KDA (arXiv 2609.24797)",
    )

    @inherits_options(ChannelDeltaLayer)
    def __init__(self, d_model: int, *, doubled_beta: bool = True, **shared: Unpack[ChannelOptions]) -> None:
        super().__init__(d_model, activate_keys=False, **shared)
        self.scale = 2.0 if doubled_beta else 1.0
        self.decay = SignedGate(d_model, self.n_heads, self.d_head, self.d_value)
        self.strength = nn.Linear(d_model, self.n_heads)
        nn.init.constant_(self.strength.bias, 0.5)

    def transitions(self, x: Tensor, state: DeltaState | None = None) -> DiagonalPlusLowRank:
        """``Diag(a) - beta k (a * k)^T``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        _, k, v, _ = self.heads(x, state.conv, None)
        sign, log_modulus = self.decay(x)
        write, _, read, _ = self._delta(x, k, v, log_modulus)
        return DiagonalPlusLowRank(sign * log_modulus.exp(), -write.unsqueeze(-1), (sign * read).unsqueeze(-1))

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        """Those of KDA with the moduli of the decay: what remains when its signs are moved elsewhere."""
        return self._delta(x, k, v, self.decay(x).log)

    def _delta(self, x: Tensor, k: Tensor, v: Tensor, log_modulus: Tensor) -> DeltaFactors:
        beta = self.scale * at_least_float32(self.strength(x)).sigmoid().unsqueeze(-1)
        return DeltaFactors(beta * k, v, log_modulus.exp() * k, log_modulus)

    def _forward(self, x: Tensor, state: DeltaState, cu_seqlens: Tensor | None) -> tuple[Tensor, DeltaState]:
        q, k, v, conv = self.heads(x, state.conv, cu_seqlens)
        sign, log_modulus = self.decay(x)
        running, last = running_signs(sign, cu_seqlens)
        o, final = self._scan(running * q, self._delta(x, running * k, v, log_modulus), state.h, cu_seqlens)
        return self.readout(o, x), DeltaState(conv, last.unsqueeze(-1) * final)
