"""Mamba-3: a scalar decay and rotations per head, a trapezoidal write, and optionally several values per token.

    [z, x, B, C, r, a, l, p] = W_in u ;   dt = softplus(r + b_dt) ;   g = -dt max(f(a), 1e-4) ;   w = sigmoid(l)
    k = RMSNorm(B) + b_B ;   q = RMSNorm(C) + b_C ;   R_t = rotation of pairs (2i, 2i + 1) by -pi tanh(p_i) dt
    S_t = exp(g_t) R_t (S_{t-1} + (1 - w_t) dt_t k_{t-1} x_{t-1}^T) + w_t dt_t k_t x_t^T
    y_t = S_t^T q_t + D x_t ;   out = W_out (y * silu(z))

with ``f(a) = 1 + a`` for ``a >= 0`` and ``1 / (1 - a)`` below. With R values per token, x and z are multiplied by maps ``M_x[r]``
and ``M_z[r]``, k and q differ by r, the state takes all ``k[r] x[r]^T``, and ``sum_r M_o[r] * y[r] * silu(z[r])`` goes out.

Letters: E = ``d_model``, H = heads, P = ``d_head``, N = ``d_state``, R = ``rank``, A = rotated pairs; heads share B, C and p and
differ by dt, decay, w and biases. Source: Mamba-3 (arXiv 2603.15569), where k and q turn by accumulated angles and the state does
not: the same outputs.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.borders import first_tokens, last_tokens, next_tokens
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state
from statetrack.layers.time_step import time_step_bias
from statetrack.scan import SSDBackend, scan, ssd_scan
from statetrack.structures import BlockDiagonal, Diagonal

Rotation = Literal["half", "all"]

_SLOWEST = 1e-4
"""Least decay rate."""


class Mamba3State(NamedTuple):
    """Attributes:
    s: ``(B, H, N, P)``.
    k: ``(B, R, H, N)``, keys of the last token.
    x: ``(B, H, P)``, value of the last token.
    """

    s: Tensor
    k: Tensor
    x: Tensor


class _Token(NamedTuple):
    """What every token contributes: dt, g, w ``(B, L, H)``; angle of its rotation ``(B, L, H, A)``."""

    dt: Tensor
    log_decay: Tensor
    weight: Tensor
    angle: Tensor


@register("mamba3")
class Mamba3(KeepsFloat32, Layer):
    """Mamba-3 layer: ``rank=1`` is its SISO form, a larger rank its MIMO form (4 as published).

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per channel, even.
        d_head: P, channels per head; as many heads as it takes for ``expand * E`` channels.
        expand: number of channels as a multiple of E.
        rank: R, values that each token writes and reads at once.
        rotation: ``"half"`` rotates the first half of the state in pairs, ``"all"`` all of it.
        chunk_size: most values that the scan treats at once; changes speed only.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, an odd ``d_state``, or another ``rotation``.

    Example:
        >>> layer = Mamba3(8, d_state=4, d_head=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.s.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 4, 4, 4]))
    """

    traits = Traits(
        structure="scaled rotations of pairs, one per head",
        spectrum="complex pairs and positive reals, modulus < 1",
        input_dependent="time step, decay, angles, B, C, weight of the write",
        one_layer=Claim("exact", "abelian groups (in the limit of modulus 1)", "arXiv 2603.01959"),
        deeper=Claim(
            "exact", "k layers: groups with a subnormal series of length k with abelian factors; never A5", "arXiv 2603.01959"
        ),
        parity=True,
        cost="O(H N P R)",
        source="Mamba-3 (arXiv 2603.15569); limits of complex diagonals: arXiv 2603.01959",
    )
    float32_parameters = ("dt_bias", "D")

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 128,
        d_head: int = 64,
        expand: int = 2,
        rank: int = 1,
        rotation: Rotation = "half",
        chunk_size: int = 64,
        backend: SSDBackend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, d_head, expand, rank, chunk_size) < 1 or d_state % 2:
            raise InvalidInputError(
                "d_model, d_state, d_head, expand, rank and chunk_size must be at least 1 and d_state even; got "
                f"{d_model}, {d_state}, {d_head}, {expand}, {rank}, {chunk_size}."
            )
        checked("rotation", rotation, Rotation)
        self.d_model, self.d_state, self.d_head, self.rank = d_model, d_state, d_head, rank
        self.chunk_size, self.backend = chunk_size, backend
        self.n_heads = heads = -(-expand * d_model // d_head)
        self.n_angles = d_state // 2 if rotation == "all" else max(d_state // 4, 1)
        channels, keys = heads * d_head, rank * d_state
        self.sizes = [channels, channels, keys, keys, heads, heads, heads, self.n_angles]
        self.in_proj = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.dt_bias = nn.Parameter(time_step_bias(heads))
        self.B_norm, self.C_norm = nn.RMSNorm(d_state, eps=1e-5), nn.RMSNorm(d_state, eps=1e-5)
        self.B_bias, self.C_bias = (nn.Parameter(torch.ones(rank, heads, d_state)) for _ in range(2))
        self.D = nn.Parameter(torch.ones(heads))
        self.M_x, self.M_z, self.M_o = (
            nn.Parameter(torch.full((rank, heads, d_head), start)) if rank > 1 else None for start in (1 / rank, 1.0, 1 / rank)
        )
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def initial_state(self, batch_size: int) -> Mamba3State:
        return Mamba3State(
            zero_state(self, batch_size, self.n_heads, self.d_state, self.d_head),
            zero_state(self, batch_size, self.rank, self.n_heads, self.d_state),
            zero_state(self, batch_size, self.n_heads, self.d_head),
        )

    def transitions(self, x: Tensor, state: Mamba3State | None = None) -> BlockDiagonal:
        """``exp(g) R`` in blocks of two, ``(B, L, H)`` of size N; pairs behind the rotated ones only decay."""
        token = self._token(*self.in_proj(x).split(self.sizes, dim=-1)[4:])
        angle = nn.functional.pad(token.angle, (0, self.d_state // 2 - self.n_angles))
        cos, sin = angle.cos(), angle.sin()
        turned = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        return BlockDiagonal(token.log_decay.exp()[..., None, None, None] * turned)

    def _forward(self, x: Tensor, state: Mamba3State, cu_seqlens: Tensor | None) -> tuple[Tensor, Mamba3State]:
        z, v, b, c, *rest = self.in_proj(x).split(self.sizes, dim=-1)
        if x.shape[1] == 0:
            return self.out_proj(z), state
        z, v = (t.unflatten(-1, (self.n_heads, self.d_head)) for t in (z, at_least_float32(v)))
        k, q = self._key(b, self.B_norm, self.B_bias), self._key(c, self.C_norm, self.C_bias)
        token = self._token(*rest)
        turned = self._accumulated(token.angle, cu_seqlens)
        # The half of a write that waits for the next token is added with the first, since both see the same decays from there on.
        early, late = (token.weight * token.dt, (1 - token.weight) * token.dt)
        waiting = _mapped(state.x.unsqueeze(1), self.M_x) * first_tokens(late, cu_seqlens)[:, None, :, None]
        start = state.s + torch.einsum("brhn,brhp->bhnp", state.k, waiting)
        values = _mapped(v.unsqueeze(2), self.M_x)
        y, s = ssd_scan(
            ((early + next_tokens(late, cu_seqlens))[:, :, None, :, None] * values).flatten(1, 2),
            token.log_decay,
            _rotated(k, turned.unsqueeze(2)).flatten(1, 2),
            _rotated(q, turned.unsqueeze(2)).flatten(1, 2),
            initial_state=start,
            own=(early[:, :, None, :, None] * values).flatten(1, 2),
            cu_seqlens=cu_seqlens,
            rank=self.rank,
            chunk_size=self.chunk_size,
            backend=self.backend,
        )
        total = last_tokens(turned, turned.new_zeros(len(s), *turned.shape[2:]), cu_seqlens)
        final = Mamba3State(
            _rotated(s.mT, -total.unsqueeze(2)).mT, last_tokens(k, state.k, cu_seqlens), last_tokens(v, state.x, cu_seqlens)
        )
        y = y.unflatten(1, (x.shape[1], self.rank)) + self.D.unsqueeze(-1) * values
        gated = _mapped(y.to(x.dtype) * silu(_mapped(z.unsqueeze(2), self.M_z)), self.M_o)
        return self.out_proj(gated.sum(2).flatten(-2)), final

    def _key(self, raw: Tensor, norm: nn.RMSNorm, bias: Tensor) -> Tensor:
        """``(B, L, R, H, N)``."""
        normed = norm(raw.unflatten(-1, (self.rank, 1, self.d_state)).to(norm.weight.dtype))
        return at_least_float32(normed) + bias

    def _token(self, r: Tensor, a: Tensor, lam: Tensor, p: Tensor) -> _Token:
        r, a, lam, p = (at_least_float32(t) for t in (r, a, lam, p))
        dt = softplus(r + self.dt_bias)
        rate = torch.where(a >= 0, 1 + a, 1 / (1 - a.clamp(max=0))).clamp(min=_SLOWEST)
        return _Token(dt, -dt * rate, lam.sigmoid(), math.pi * p.tanh().unsqueeze(2) * dt.unsqueeze(-1))

    def _accumulated(self, angle: Tensor, cu_seqlens: Tensor | None) -> Tensor:
        """Sums of angles since the start, modulo a turn; in double precision, since they grow with the length."""
        exact = angle.double()
        sums = scan(Diagonal(torch.ones_like(exact)), exact, cu_seqlens=cu_seqlens).states
        return sums.remainder(2 * math.pi).to(angle.dtype)


def _mapped(t: Tensor, each: Tensor | None) -> Tensor:
    """``(..., R, H, P)``: every value of a token by a map of its own, if there are more than one."""
    return t if each is None else t * each


def _rotated(x: Tensor, angle: Tensor) -> Tensor:
    """The first pairs ``(2i, 2i + 1)`` of the last dimension of ``x`` turned by ``angle (..., A)``."""
    pairs, rest = x[..., : 2 * angle.shape[-1]].unflatten(-1, (-1, 2)), x[..., 2 * angle.shape[-1] :]
    first, second = pairs.unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
    return torch.cat([turned, rest], dim=-1)
