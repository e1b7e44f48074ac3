"""Matrix states under scalar decay: the state-space dual form.

    S_t = exp(g_t) S_{t-1} + sum_r b_{t,r} x_{t,r}^T ;   y_{t,r} = S_t^T c_{t,r}

Letters: B = rows, L = tokens, R = ``rank`` (writes and reads per token), H = heads, G = groups of heads that share b and c, N =
key size, P = value size, g = log decay, S = state ``(N, P)``; in chunks, C = tokens per chunk and Q = chunks. Inside a chunk
everything is a matrix product, and each chunk hands one state to the next. Source: Mamba-2 (arXiv 2405.21060); ranks: Mamba-3
(arXiv 2603.15569).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from statetrack._typing import Float, Int
from statetrack.errors import InvalidInputError
from statetrack.scan.chunks import Chunks
from statetrack.scan.decay import HeadDecay
from statetrack.scan.offsets import checked_offsets

SSDBackend = Literal["auto", "reference", "chunk"]


class SSDResult(NamedTuple):
    """Attributes:
    outputs: ``(B, L * R, H, P)``.
    final: ``(B, H, N, P)`` (or one row per packed document), the state after the last token.
    """

    outputs: Tensor
    final: Tensor


class _Factors(NamedTuple):
    """Arguments with steps ``L * R`` split in two, ``(B, L, R, ...)``; ``own`` is None where a token sees what later ones see."""

    x: Tensor
    own: Tensor | None
    log_decay: Tensor
    b: Tensor
    c: Tensor


def ssd_scan(
    x: Float[Tensor, "B LR H P"],
    log_decay: Float[Tensor, "B L H"],
    b: Float[Tensor, "B LR G N"],
    c: Float[Tensor, "B LR G N"],
    *,
    initial_state: Float[Tensor, "rows H N P"] | None = None,
    own: Float[Tensor, "B LR H P"] | None = None,
    cu_seqlens: Int[Tensor, " offsets"] | None = None,
    rank: int = 1,
    chunk_size: int = 64,
    backend: SSDBackend = "auto",
) -> SSDResult:
    """Run ``S <- exp(g) S + b x^T`` along the second dimension and read ``y = S^T c``.

    Args:
        x: ``(B, L * R, H, P)``, the values.
        log_decay: ``(B, L, H)``, at most 0; ``-inf`` forgets everything.
        b: ``(B, L * R, G, N)``, where values are written; head h uses group ``h // (H / G)``.
        c: ``(B, L * R, G, N)``, what reads the state after each token.
        initial_state: ``(B, H, N, P)``; None means 0.
        own: ``(B, L * R, H, P)``, the values that each token itself reads in place of its ``x``, which later tokens and the final
            state see; None means ``x``.
        cu_seqlens: ``(S + 1,)`` integer offsets, in tokens, of ``S`` documents packed along ``L`` of a batch of one; states
            never cross a border and ``initial_state`` and ``final`` have ``S`` rows.
        rank: R, values that each token writes and reads at once; those of one token follow one another in ``x``, ``b``, ``c``.
        chunk_size: most values that are treated at once, C R. Time is O(L R H (C R + N) P).
        backend: ``"chunk"`` works on whole chunks, ``"reference"`` is the loop over tokens; ``"auto"`` takes the loop for a
            single token and chunks otherwise.

    Returns:
        Outputs and final state in the common dtype of the arguments (half precision is computed and returned in float32).

    Raises:
        InvalidInputError: shapes, dtypes or offsets that do not fit, an unknown backend.

    Example:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> ssd_scan(one, torch.full((1, 3, 1), 0.5).log(), one, one).outputs.flatten().tolist()
        [1.0, 1.5, 1.75]
    """
    _check(x, own, log_decay, b, c, initial_state, rank, chunk_size, backend)
    offsets = None if cu_seqlens is None else checked_offsets(cu_seqlens, *log_decay.shape[:2])
    rows = x.shape[0] if offsets is None else len(offsets) - 1
    shape = (rows, x.shape[2], b.shape[3], x.shape[3])
    if initial_state is not None and initial_state.shape != shape:
        raise InvalidInputError(f"initial_state needs shape (rows, H, N, P) = {shape}, got {tuple(initial_state.shape)}.")
    dtype = torch.float32
    for tensor in (x, own, log_decay, b, c, initial_state):
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    initial = x.new_zeros(shape, dtype=dtype) if initial_state is None else initial_state.to(dtype)
    split = log_decay.shape[1], rank
    x, b, c = (tensor.to(dtype).unflatten(1, split) for tensor in (x, b, c))
    factors = _Factors(x, None if own is None else own.to(dtype).unflatten(1, split), log_decay.to(dtype), b, c)
    with torch.autocast(x.device.type, enabled=False):
        if backend == "reference" or (backend == "auto" and log_decay.shape[1] == 1):
            y, final = _sequential(factors, initial, offsets)
        else:
            y, final = _chunked(factors, initial, offsets, chunk_size)
    return SSDResult(y.flatten(1, 2), final)


def _check(
    x: Tensor,
    own: Tensor | None,
    log_decay: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor | None,
    rank: int,
    chunk_size: int,
    backend: str,
) -> None:
    if backend not in get_args(SSDBackend):
        raise InvalidInputError(f"backend {backend!r} is not one of {', '.join(get_args(SSDBackend))}.")
    if min(rank, chunk_size) < 1:
        raise InvalidInputError(f"rank and chunk_size must be at least 1; got {rank} and {chunk_size}.")
    if log_decay.ndim != 3:
        raise InvalidInputError(f"log_decay needs shape (B, L, H), got {tuple(log_decay.shape)}.")
    rows, length, heads = log_decay.shape
    steps = (rows, length * rank)
    if x.ndim != 4 or x.shape[:3] != (*steps, heads):
        raise InvalidInputError(f"x needs shape (B, L * rank, H, P) with {(*steps, heads)} in front, got {tuple(x.shape)}.")
    if own is not None and own.shape != x.shape:
        raise InvalidInputError(f"own needs the shape {tuple(x.shape)} of x, got {tuple(own.shape)}.")
    if b.ndim != 4 or b.shape[:2] != steps or b.shape != c.shape:
        raise InvalidInputError(
            f"b and c need shape (B, L * rank, G, N) with {steps} in front, got {tuple(b.shape)} and {tuple(c.shape)}."
        )
    if heads % max(b.shape[2], 1):
        raise InvalidInputError(f"the number of groups G = {b.shape[2]} must divide the number of heads H = {heads}.")
    for name, tensor in (("x", x), ("own", own), ("log_decay", log_decay), ("b", b), ("c", c), ("state", initial)):
        if tensor is not None and not tensor.dtype.is_floating_point:
            raise InvalidInputError(f"{name} needs a real floating-point dtype, got {tensor.dtype}.")


def _sequential(factors: _Factors, initial: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """One token after another: outputs ``(B, L, R, H, P)`` and final states."""
    heads = factors.x.shape[3]
    b, c = (t.repeat_interleave(heads // max(t.shape[3], 1), 3).transpose(2, 3) for t in (factors.b, factors.c))
    x, own = (None if t is None else t.transpose(2, 3) for t in (factors.x, factors.own))
    assert x is not None
    decay = factors.log_decay.exp()[..., None, None]
    borders = [0, x.shape[1]] if offsets is None else offsets.tolist()
    outputs, finals = [], []
    for s, (start, stop) in enumerate(pairwise(borders)):
        state = initial if offsets is None else initial[s : s + 1]
        for t in range(start, stop):
            kept = decay[:, t] * state
            state = kept + b[:, t].mT @ x[:, t]
            outputs.append(c[:, t] @ (state if own is None else kept + b[:, t].mT @ own[:, t]))
        finals.append(state)
    y = torch.stack(outputs, dim=1).transpose(2, 3) if outputs else factors.x
    return y, torch.cat(finals) if finals else initial


def _chunked(factors: _Factors, initial: Tensor, offsets: Tensor | None, chunk_size: int) -> tuple[Tensor, Tensor]:
    """The same by chunks. Inside, tensors are ``(Q, G, H / G, ...)``, and ``(R, C)`` are the steps of a chunk."""
    rows, length, rank, _, size = factors.x.shape
    groups = factors.b.shape[3]
    if not factors.x.numel() or not factors.b.numel():
        return torch.zeros_like(factors.x), initial
    chunks = Chunks.of(rows, length, offsets, max(chunk_size // rank, 1))

    def cut(t: Tensor) -> Tensor:
        """``(Q, G, H / G, R C, ...)`` from ``(B, L, R, H, ...)``, with 1 for H / G where there is one for each group."""
        parts = chunks.split(t.transpose(2, 3)).transpose(2, 3)
        return parts.flatten(2, 3).unflatten(1, (groups, -1))

    x, b, c = cut(factors.x), cut(factors.b).squeeze(2), cut(factors.c).squeeze(2)
    decay = HeadDecay(chunks.split(factors.log_decay).unflatten(1, (groups, -1)))
    one = x.new_ones(chunks.size, 1)
    between = decay.products(one, one)
    if factors.own is not None:
        # Masked here rather than subtracted below: an output must not depend on a later token, not even by rounding.
        between = between.tril(-1)
    scores = (c @ b.mT).unflatten(-1, (rank, -1)).unflatten(-3, (rank, -1)).unsqueeze(2)
    y = (scores * between[:, :, :, None, :, None, :]).flatten(-2).flatten(-3, -2) @ x
    if factors.own is not None:
        now = scores.diagonal(dim1=-3, dim2=-1).movedim(-1, -3)
        y = y + (now @ cut(factors.own).unflatten(-2, (rank, -1)).transpose(-3, -2)).transpose(-3, -2).flatten(-3, -2)

    def side_by_side(t: Tensor) -> Tensor:
        """``(Q, G, M, H / G * P)`` from ``(Q, G, H / G, M, P)``: heads that share b and c make one matrix."""
        return t.transpose(2, 3).flatten(-2)

    added = b.mT @ side_by_side(x * decay.until_end.repeat(1, 1, 1, rank, 1))
    kept = decay.since_start[..., -1:, :]
    starts, state = [], initial.unflatten(1, (groups, -1))
    added = added.unflatten(-1, (-1, size)).transpose(2, 3)
    per_chunk = (chunks.by_sequence(t).unbind(1) for t in (kept, added))  # a slice at a time would cost a whole gradient each
    for i, (left, new) in enumerate(zip(*per_chunk, strict=True)):
        starts.append(state)
        state = chunks.keep(i, left * state + new, state)
    start = side_by_side(chunks.by_chunk(torch.stack(starts, dim=1)))
    before = (c @ start).unflatten(-1, (-1, size)).transpose(2, 3)
    y = y + before * decay.since_start.repeat(1, 1, 1, rank, 1)
    y = chunks.join(y.flatten(1, 2).unflatten(2, (rank, -1)).transpose(2, 3))
    return y.transpose(2, 3), state.flatten(1, 2)
