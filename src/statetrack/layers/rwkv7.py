"""RWKV-7: a delta rule whose erased key, learning rate and decay are vectors of their own.

    x^c_t = x_t + (x_{t-1} - x_t) * m_c for c in r, w, k, v, a, g ;   r, k, v = W x^r, W x^k, W x^v
    w = exp(-e^{-1/2} sigma(b_w + U tanh(V x^w))) ;   a = sigma(b_a + U V x^a) ;   g = U sigma(V x^g)
    n = unit length of k * k_k per head ;   k' = k * (1 + (a - 1) * k_a)
    S_t = (Diag(w_t) - (c a_t * n_t) n_t^T) S_{t-1} + k'_t v_t^T ;   o_t = S_t^T r_t
    y = W_o( (GroupNorm(o) + <r, k' * r_k> v) * g )

Letters: E = ``d_model``, H = heads, K = ``d_head``; n is the key that is erased, and it reads the state before its decay; c is 1,
or 2 with ``negative_eigenvalues``. Source: RWKV-7 (arXiv 2503.14456).

What the published stack does across layers is left out. Every layer behaves like the first one, which takes in no values of
another layer (``v_first``), and starts from the numbers of a stack of one layer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.convolution import with_history
from statetrack.layers.delta_base import unit_length
from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state
from statetrack.scan import LowRankBackend, low_rank_scan
from statetrack.structures import DiagonalPlusLowRank

_MIXED = ("r", "w", "k", "v", "a", "g")
_MIXING_POWERS = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)


class RWKV7State(NamedTuple):
    """Attributes:
    h: ``(B, H, K, K)``.
    last: ``(B, 1, E)``, the last input.
    """

    h: Tensor
    last: Tensor


class _Tokens(NamedTuple):
    """What one token does to the state, ``(B, L, H, K)`` each, and the gate of the output ``(B, L, H K)``."""

    r: Tensor
    log_w: Tensor
    k: Tensor
    v: Tensor
    erased: Tensor
    rate: Tensor
    gate: Tensor


class _RankMap(nn.Sequential):
    """``U act(V x)`` without biases; V starts at 0 and U orthogonal, so that the map starts at 0."""

    def __init__(self, d_in: int, rank: int, d_out: int, activation: nn.Module) -> None:
        down, up = nn.Linear(d_in, rank, bias=False), nn.Linear(rank, d_out, bias=False)
        nn.init.zeros_(down.weight)
        nn.init.orthogonal_(up.weight, gain=0.1 * max(1.0, math.sqrt(rank / d_out)))
        super().__init__(down, activation, up)


@register("rwkv7")
class RWKV7(KeepsFloat32, Layer):
    """RWKV-7 time mixing.

    Args:
        d_model: E, width of input and output.
        n_heads: H, independent states.
        d_head: K; None means ``E / H``, rounded up.
        negative_eigenvalues: erase with twice the rate (c = 2), as the proofs about automata do: reflections become possible,
            but also eigenvalues below -1.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> layer = RWKV7(8, n_heads=2)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4, 4]))
    """

    traits = Traits(
        structure="positive diagonal minus a rank-one matrix",
        spectrum="real, in (-0.46, 1); in (-1.46, 1) with negative_eigenvalues",
        input_dependent="decay, erased key, rate (and with them the transition), key, value, query",
        one_layer=Claim(
            "at least",
            "parity, and permutation groups whose letters are swaps (negative_eigenvalues, in the limit w -> 1)",
            "arXiv 2503.14456",
        ),
        deeper=Claim("at least", "every regular language in 4 layers (negative_eigenvalues, w -> 1)", "arXiv 2503.14456"),
        parity=True,
        cost="O(H K^2)",
        source="RWKV-7 (arXiv 2503.14456)",
        needs={"negative_eigenvalues": True},
    )
    float32_parameters = ("decay_bias", "rate_bias")

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int = 4,
        d_head: int | None = None,
        negative_eigenvalues: bool = False,
        backend: LowRankBackend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, n_heads, 1 if d_head is None else d_head) < 1:
            raise InvalidInputError(f"d_model, n_heads and d_head must be at least 1; got {d_model}, {n_heads}, {d_head}.")
        d_head = -(-d_model // n_heads) if d_head is None else d_head
        self.d_model, self.n_heads, self.d_head, self.backend = d_model, n_heads, d_head, backend
        self.scale = 2.0 if negative_eigenvalues else 1.0
        size = n_heads * d_head
        powers = torch.tensor(_MIXING_POWERS).unsqueeze(1)
        self.mixing = nn.Parameter(1 - (torch.arange(d_model) / d_model) ** powers)
        self.r_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, size, bias=False) for _ in range(3))
        for projection, gain in ((self.r_proj, 1.0), (self.k_proj, 0.1), (self.v_proj, 1.0)):
            nn.init.orthogonal_(projection.weight, gain=gain)
        self.decay = _RankMap(d_model, _rank(2.5 * d_head / 64, d_model), size, nn.Tanh())
        self.rate = _RankMap(d_model, _rank(2.5 * d_head / 64, d_model), size, nn.Identity())
        self.gate = _RankMap(d_model, _rank(5.0, d_model), size, nn.Sigmoid())
        ramp = torch.arange(size) / max(size - 1, 1)
        across = 2 * torch.arange(d_head) / max(d_head - 1, 1) - 1
        zigzag = (across * across.abs()).repeat(n_heads)
        self.decay_bias = nn.Parameter(6 * ramp - 5.5 + 2.5 * zigzag)
        self.rate_bias = nn.Parameter(-0.19 + 0.3 * zigzag + 0.4 * (ramp - 0.5))
        self.k_k = nn.Parameter(0.71 - 0.1 * (ramp - 0.5))
        self.k_a = nn.Parameter(torch.full((size,), 1.02))
        self.r_k = nn.Parameter(torch.full((n_heads, d_head), -0.04))
        self.norm_weight, self.norm_bias = nn.Parameter(torch.ones(n_heads, d_head)), nn.Parameter(torch.zeros(n_heads, d_head))
        self.out = nn.Linear(size, d_model, bias=False)
        nn.init.zeros_(self.out.weight)

    def initial_state(self, batch_size: int) -> RWKV7State:
        h = zero_state(self, batch_size, self.n_heads, self.d_head, self.d_head)
        return RWKV7State(h, zero_state(self, batch_size, 1, self.d_model))

    def transitions(self, x: Tensor, state: RWKV7State | None = None) -> DiagonalPlusLowRank:
        """``Diag(w) - (c a * n) n^T``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        tokens, _ = self._tokens(x, state.last, None)
        left, right = (-tokens.rate * tokens.erased).unsqueeze(-1), tokens.erased.unsqueeze(-1)
        return DiagonalPlusLowRank(tokens.log_w.exp(), left, right)

    def _forward(self, x: Tensor, state: RWKV7State, cu_seqlens: Tensor | None) -> tuple[Tensor, RWKV7State]:
        tokens, last = self._tokens(x, state.last, cu_seqlens)
        r, log_w, k, v, erased, rate, gate = tokens
        o, h = low_rank_scan(
            r,
            k,
            v,
            -rate * erased,
            erased,
            log_decay=log_w,
            initial_state=state.h,
            cu_seqlens=cu_seqlens,
            backend=self.backend,
        )
        o = layer_norm(o, (self.d_head,), eps=1e-5 * self.d_head) * self.norm_weight + self.norm_bias
        o = o + (r * k * self.r_k).sum(-1, keepdim=True) * v
        return self.out(o.flatten(-2).to(x.dtype) * gate), RWKV7State(h, last)

    def _tokens(self, x: Tensor, last: Tensor, cu_seqlens: Tensor | None) -> tuple[_Tokens, Tensor]:
        line, first, last = with_history(x, last, cu_seqlens)
        before = (line[:, : x.shape[1]] if first is None else line[:, first]).to(x.dtype)
        mixed = x.unsqueeze(2) + (before - x).unsqueeze(2) * self.mixing.to(x.dtype)
        by_name = dict(zip(_MIXED, mixed.unbind(2), strict=True))
        log_w = -math.exp(-0.5) * (at_least_float32(self.decay(by_name["w"])) + self.decay_bias).sigmoid()
        a = (at_least_float32(self.rate(by_name["a"])) + self.rate_bias).sigmoid()
        k = at_least_float32(self.k_proj(by_name["k"]))
        r, v = at_least_float32(self.r_proj(by_name["r"])), at_least_float32(self.v_proj(by_name["v"]))
        r, log_w, a, v, raw, k = (
            t.unflatten(-1, (self.n_heads, self.d_head)) for t in (r, log_w, a, v, k * self.k_k, k * (1 + (a - 1) * self.k_a))
        )
        return _Tokens(r, log_w, k, v, unit_length(raw), self.scale * a, self.gate(by_name["g"])), last


def _rank(factor: float, d_model: int) -> int:
    """``factor * sqrt(E)`` to the nearest multiple of 32, at least 32."""
    return max(32, 32 * round(factor * math.sqrt(d_model) / 32))
