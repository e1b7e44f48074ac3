"""Causal softmax attention with rotary positions: the baseline that keeps everything and has no recurrence of fixed size.

    [q, k, v] = W x ;   y_t = W_o sum_{s <= t} softmax_s( <R_t q_t, R_s k_s> / sqrt(P) ) v_s

Letters: E = ``d_model``, H = heads, P = ``d_head``, T = cached tokens, ``R_t`` = rotation by the angles of position t. The
feed-forward of a Transformer belongs to the block. Source: Vaswani et al. (arXiv 1706.03762), RoPE (arXiv 2104.09864).
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.cache import appended, as_rows, filled_slots
from statetrack.layers.precision import at_least_float32, zero_state


class KeyValueCache(NamedTuple):
    """Attributes:
    k: ``(B, T, H, P)`` rotated keys; zero beyond ``length``.
    v: ``(B, T, H, P)`` values; zero beyond ``length``.
    length: ``(B,)`` int64, how many tokens each row has seen.
    """

    k: Tensor
    v: Tensor
    length: Tensor


@register("transformer")
class Transformer(Layer):
    """Multi-head causal self-attention.

    Args:
        d_model: E, width of input and output.
        n_heads: H.
        d_head: P, width of a head, even; None means ``E / H`` rounded up to an even number.
        rope_base: base of the rotary wavelengths.

    Raises:
        InvalidInputError: a size below 1, or an odd ``d_head``.

    Example:
        >>> layer = Transformer(8, n_heads=2)
        >>> y, cache = layer(torch.zeros(2, 5, 8))
        >>> y.shape, cache.k.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 5, 2, 4]))
    """

    traits = Traits(
        structure="none (attention over a growing cache)",
        spectrum="none",
        input_dependent="everything",
        one_layer=Claim("at most", "TC0", "arXiv 2207.00729"),
        deeper=Claim("at most", "TC0, hence no non-solvable group unless TC0 = NC1", "arXiv 2207.00729"),
        parity=None,
        cost="O(L E)",
        source="arXiv 1706.03762, arXiv 2104.09864; limits: arXiv 2207.00729",
        linear=False,
        streams=False,
    )

    def __init__(self, d_model: int, *, n_heads: int = 4, d_head: int | None = None, rope_base: float = 10_000.0) -> None:
        super().__init__()
        if min(d_model, n_heads) < 1 or not rope_base > 1:
            raise InvalidInputError(
                f"d_model and n_heads must be at least 1 and rope_base above 1; got {d_model}, {n_heads}, {rope_base}."
            )
        d_head = 2 * -(-d_model // (2 * n_heads)) if d_head is None else d_head
        if d_head < 2 or d_head % 2:
            raise InvalidInputError(f"d_head must be even and at least 2, since rotary positions turn pairs; got {d_head}.")
        self.d_model, self.n_heads, self.d_head, self.rope_base = d_model, n_heads, d_head, rope_base
        self.qkv = nn.Linear(d_model, 3 * n_heads * d_head, bias=False)
        self.out = nn.Linear(n_heads * d_head, d_model, bias=False)

    def initial_state(self, batch_size: int) -> KeyValueCache:
        k, v = (zero_state(self, batch_size, 0, self.n_heads, self.d_head) for _ in range(2))
        return KeyValueCache(k, v, torch.zeros(batch_size, dtype=torch.long, device=k.device))

    def transitions(self, x: Tensor, state: KeyValueCache | None = None) -> NoReturn:
        raise InvalidInputError("transformer has no recurrence of fixed size, hence no transition matrices.")

    def _forward(self, x: Tensor, state: KeyValueCache, cu_seqlens: Tensor | None) -> tuple[Tensor, KeyValueCache]:
        if cu_seqlens is None:
            return self._attend(x, state, None)
        present = filled_slots(cu_seqlens)
        y, (k, v, length) = self._attend(as_rows(x, present), state, present)
        longest = int(length.max()) if len(length) else 0
        return y[present].unsqueeze(0), KeyValueCache(k[:, :longest], v[:, :longest], length)

    def _attend(self, x: Tensor, cache: KeyValueCache, present: Tensor | None) -> tuple[Tensor, KeyValueCache]:
        """Attention of every row to itself and its cache; ``present (B, L)`` is false behind the end of a shorter row."""
        n_rows, n_new = x.shape[:2]
        position = cache.length.unsqueeze(1) + torch.arange(n_new, device=x.device)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, self.d_head)).unbind(2)
        q, k = self._rotated(q, position), self._rotated(k, position)
        added = position.new_full((n_rows,), n_new) if present is None else present.sum(1)
        k, v = appended(cache.k, k, position, present), appended(cache.v, v, position, present)
        cache = KeyValueCache(k, v, cache.length + added)
        q, keys, values = (tensor.to(q.dtype).transpose(1, 2) for tensor in (q, k, v))
        fresh = k.shape[1] == n_new
        seen = None if fresh else (torch.arange(k.shape[1], device=x.device) <= position.unsqueeze(-1)).unsqueeze(1)
        y = scaled_dot_product_attention(q, keys, values, attn_mask=seen, is_causal=fresh)
        return self.out(y.transpose(1, 2).flatten(-2)), cache

    def _rotated(self, x: Tensor, position: Tensor) -> Tensor:
        """Pairs ``(i, i + P / 2)`` of ``x (B, L, H, P)`` turned by ``position * base^(-2 i / P)``."""
        exact = at_least_float32(x)
        half = self.d_head // 2
        frequency = self.rope_base ** (-torch.arange(half, dtype=exact.dtype, device=x.device) / half)
        angle = (position.to(exact.dtype).unsqueeze(-1) * frequency).unsqueeze(2)
        a, b = exact.chunk(2, dim=-1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1).to(x.dtype)
