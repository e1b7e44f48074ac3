"""PaTH attention: softmax attention whose position encoding is a product of input-dependent Householder-like matrices.

    logit_ts = ( q_t^T H_t ... H_{s+1} k_s + sum_{s < r <= t} log f_r ) / sqrt(P) ,   H_t = I - beta_t w_t w_t^T
    w = unit length of silu(conv3(W_2 W_1 x)) ;   beta = 2 sigma(W_b x + b) ;   f = sigma(W_f x + c)
    y_t = W_o sum_s softmax_s(logit_ts) v_s ;   [q, k, v] = W x

Letters: E = ``d_model``, H = heads, P = ``d_head``, T = cached tokens, L = new tokens, C = tokens of a chunk. The cache holds
every key as later tokens have moved it, ``H_t ... H_{s+1} k_s``, so that one token costs O(T P) and no ``w`` is kept. Within a
chunk the products are in the triangular form ``I - W^T (I + stril(B W W^T))^-1 B W`` with ``B = diag(beta)``. Source: PaTH
attention (arXiv 2505.16381); forget gate: arXiv 2503.02130.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.cache import appended, as_rows, filled_slots
from statetrack.layers.convolution import CausalConvolution
from statetrack.layers.delta_base import unit_length
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.structures import DiagonalPlusLowRank

_CHUNK = 64
_CLAIM = Claim("at least", "an NC1-complete problem: following swaps of 5 objects", "arXiv 2505.16381; swaps: derived")


class PaTHCache(NamedTuple):
    """Attributes:
    conv: ``(B, d_conv - 1, H P)``, the last inputs of the convolution.
    k: ``(B, T, H, P)`` keys, moved by all later tokens; zero beyond ``length``.
    v: ``(B, T, H, P)`` values; zero beyond ``length``.
    log_forget: ``(B, T, H)``, log of the forget gates since each token, summed; zero without a forget gate.
    length: ``(B,)`` int64, how many tokens each row has seen.
    """

    conv: Tensor
    k: Tensor
    v: Tensor
    log_forget: Tensor
    length: Tensor


class _Tokens(NamedTuple):
    """What attention reads of every token: ``(B, L, H, P)``, or ``(B, L, H)`` for ``beta`` and ``log_forget``."""

    q: Tensor
    k: Tensor
    v: Tensor
    w: Tensor
    beta: Tensor
    log_forget: Tensor


@register("path-attention")
class PaTHAttention(Layer):
    """Multi-head causal attention with accumulating Householder transformations instead of positions.

    Args:
        d_model: E, width of input and output.
        n_heads: H.
        d_head: P, width of a head; None means ``E / H`` rounded up.
        d_conv: width of the causal convolution on w.
        w_rank: rank of the projection to w.
        forget_gate: add the logs of a forget gate to the logits.

    Raises:
        InvalidInputError: a size below 1.

    Example:
        >>> layer = PaTHAttention(8, n_heads=2)
        >>> y, cache = layer(torch.zeros(2, 5, 8))
        >>> y.shape, cache.k.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 5, 2, 4]))
    """

    traits = Traits(
        structure="identity plus rank one, moving the keys of a growing cache",
        spectrum="real, in (-1, 1]: ones and 1 - beta",
        input_dependent="everything",
        one_layer=Claim(
            "at least", "an NC1-complete problem under AC0 reductions, with logarithmic precision", "arXiv 2505.16381"
        ),
        deeper=Claim("at least", "an NC1-complete problem under AC0 reductions, with logarithmic precision", "arXiv 2505.16381"),
        parity=True,
        cost="O(T E)",
        source="PaTH attention (arXiv 2505.16381); parity: derived",
        linear=False,
        streams=False,
    )

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int = 4,
        d_head: int | None = None,
        d_conv: int = 3,
        w_rank: int = 32,
        forget_gate: bool = False,
    ) -> None:
        super().__init__()
        if min(d_model, n_heads) < 1:
            raise InvalidInputError(f"d_model and n_heads must be at least 1; got {d_model} and {n_heads}.")
        d_head = -(-d_model // n_heads) if d_head is None else d_head
        if min(d_head, d_conv, w_rank) < 1:
            raise InvalidInputError(f"d_head, d_conv and w_rank must be at least 1; got {d_head}, {d_conv}, {w_rank}.")
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_head
        size = n_heads * d_head
        self.qkv = nn.Linear(d_model, 3 * size, bias=False)
        self.w_proj = nn.Sequential(nn.Linear(d_model, w_rank, bias=False), nn.Linear(w_rank, size, bias=False))
        self.conv = CausalConvolution(size, d_conv, bias=False)
        self.beta = nn.Linear(d_model, n_heads)
        self.forget = nn.Linear(d_model, n_heads) if forget_gate else None
        self.out = nn.Linear(size, d_model, bias=False)

    def initial_state(self, batch_size: int) -> PaTHCache:
        k, v = (zero_state(self, batch_size, 0, self.n_heads, self.d_head) for _ in range(2))
        length = torch.zeros(batch_size, dtype=torch.long, device=k.device)
        return PaTHCache(self.conv.initial_state(batch_size), k, v, k.sum(-1), length)

    def transitions(self, x: Tensor, state: PaTHCache | None = None) -> DiagonalPlusLowRank:
        """``H_t``, ``(B, L, H)`` matrices of size P, by which each token moves every key in the cache."""
        state = self.initial_state(x.shape[0]) if state is None else state
        tokens, _ = self._tokens(x, state.conv, None)
        left, right = (-tokens.beta.unsqueeze(-1) * tokens.w).unsqueeze(-1), tokens.w.unsqueeze(-1)
        return DiagonalPlusLowRank(torch.ones_like(tokens.w), left, right)

    def _forward(self, x: Tensor, state: PaTHCache, cu_seqlens: Tensor | None) -> tuple[Tensor, PaTHCache]:
        tokens, conv = self._tokens(x, state.conv, cu_seqlens)
        present = None
        if cu_seqlens is not None:
            present = filled_slots(cu_seqlens)
            tokens = _Tokens(*(as_rows(token, present) for token in tokens))
        with torch.autocast(x.device.type, enabled=False):
            y, cache = self._attend(tokens, state, present)
        if present is not None:
            y = y[present].unsqueeze(0)
            longest = int(cache.length.max()) if len(cache.length) else 0
            k, v, log_forget = (field[:, :longest] for field in (cache.k, cache.v, cache.log_forget))
            cache = PaTHCache(conv, k, v, log_forget, cache.length)
        return self.out(y.flatten(-2).to(x.dtype)), cache._replace(conv=conv)

    def _tokens(self, x: Tensor, conv: Tensor, cu_seqlens: Tensor | None) -> tuple[_Tokens, Tensor]:
        q, k, v = at_least_float32(self.qkv(x)).unflatten(-1, (3, self.n_heads, self.d_head)).unbind(2)
        w, conv = self.conv(self.w_proj(x), conv, cu_seqlens)
        w = unit_length(silu(at_least_float32(w)).unflatten(-1, (self.n_heads, self.d_head)))
        beta = 2 * at_least_float32(self.beta(x)).sigmoid()
        log_forget = torch.zeros_like(beta) if self.forget is None else logsigmoid(at_least_float32(self.forget(x)))
        return _Tokens(q, k, v, w, beta, log_forget), conv

    def _attend(self, tokens: _Tokens, cache: PaTHCache, present: Tensor | None) -> tuple[Tensor, PaTHCache]:
        """Outputs ``(B, L, H, P)`` and the new cache; ``present (B, L)`` is false behind the end of a shorter row."""
        n_rows, n_new = tokens.q.shape[:2]
        n_old = cache.k.shape[1]
        slots = torch.arange(max(n_old, n_new), device=tokens.q.device)
        added = cache.length.new_full((n_rows,), n_new) if present is None else present.sum(1)
        known = torch.cat([slots[:n_old] < cache.length.unsqueeze(1), slots[:n_new] < added.unsqueeze(1)], 1)[:, None, None]
        keys, values, forgotten = (t.to(tokens.k.dtype).transpose(1, 2) for t in (cache.k, cache.v, cache.log_forget))
        outputs = []
        for start in range(0, n_new, _CHUNK):
            q, k, v, w, beta, gate = (t[:, start : start + _CHUNK].transpose(1, 2) for t in tokens)
            seen = n_old + start
            own = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
            erase, moved = _triangular_form(k, w, beta)
            read = (q @ w.mT).tril()
            gate = gate.cumsum(-1)
            older = (q - read @ erase) @ keys.mT + gate.unsqueeze(-1) + forgotten.unsqueeze(-2)
            recent = q @ k.mT - read @ moved + gate.unsqueeze(-1) - gate.unsqueeze(-2)
            allowed = torch.cat([known[..., :seen].expand(-1, 1, len(own), -1), known[..., seen : seen + len(own)] & own], -1)
            logits = torch.cat([older, recent], -1) * self.d_head**-0.5
            # The least number rather than -inf: rows without a single token stay finite, and so do their gradients.
            weights = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min).softmax(-1)
            values = torch.cat([values, v], 2)
            outputs.append(weights @ values)
            keys = torch.cat([keys - keys @ erase.mT @ w, k - moved.mT @ w], 2)
            forgotten = torch.cat([forgotten + gate[..., -1:], gate[..., -1:] - gate], -1)
        y = torch.cat(outputs, 2).transpose(1, 2) if outputs else torch.zeros_like(tokens.v)
        position = cache.length.unsqueeze(1) + slots[:n_new]
        forgotten = forgotten * known[:, 0]
        k, v, log_forget = (
            appended(line[:, :n_old], line[:, n_old:], position, present)
            for line in (keys.transpose(1, 2), values.transpose(1, 2), forgotten.transpose(1, 2))
        )
        return y, PaTHCache(cache.conv, k, v, log_forget, cache.length + added)


def _triangular_form(k: Tensor, w: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """``Y (B, H, C, P)`` and ``M (B, H, C, C)`` for one chunk.

    ``H_t ... H_1 = I - sum_{r <= t} w_r Y_r^T`` and ``H_t ... H_{s+1} k_s = k_s - sum_{r <= t} w_r M_rs``.
    """
    weighted = beta.unsqueeze(-1) * w
    right = torch.cat([weighted, (weighted @ k.mT).tril(-1)], dim=-1)
    solved = torch.linalg.solve_triangular(weighted @ w.mT, right, upper=False, unitriangular=True)
    erase, moved = solved.split([w.shape[-1], w.shape[-2]], dim=-1)
    return erase, moved
