"""Recurrences whose transition is the same at every token, chunk by chunk: a small convolution inside, a state in between.

    h_t = A h_{t-1} + f u_t ;   y_t = g h_t
    within a chunk:   y_t = sum_{j <= t} (g A^{t-j} f) u_j + (g A^{t+1}) h_start
    between chunks:   h_end = A^T h_start + sum_j (A^{T-1-j} f) u_j

Letters: B = rows, L = tokens, S = sequences (rows, or documents packed into one row), C = channels, V = inputs per channel that
share its A, T = tokens per chunk, D = chunks of the longest sequence, R = real numbers of the state per channel and input;
``(H, N)`` is the layout of a complex state, which holds the ``C * R * V`` real numbers in that order. Two matrix products per
channel take the place of states for every token. Source: S4D (arXiv 2206.11893) for the convolution, Mamba-2 (arXiv 2405.21060)
for the chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from statetrack.scan.api import scan
from statetrack.scan.backends import Backend
from statetrack.scan.chunks import Chunks
from statetrack.structures import Structure


class Response(NamedTuple):
    """What a system answers to an impulse.

    Attributes:
        powers: ``A^0 .. A^T``, batch dimensions ``(T + 1, H)``.
        kernel: ``(C, T)`` real, the output ``0 .. T - 1`` tokens after an input.
        write: ``(C, R, T)`` real, the state ``0 .. T - 1`` tokens after an input.
        read: ``(C, T, R)`` real, the output ``1 .. T`` tokens after a state.
    """

    powers: Structure
    kernel: Tensor
    write: Tensor
    read: Tensor


def time_invariant_scan(
    respond: Callable[[int], Response],
    inputs: Tensor,
    initial_state: Tensor,
    *,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
    backend: Backend = "auto",
) -> tuple[Tensor, Tensor]:
    """Outputs and final state of a time-invariant recurrence.

    Args:
        respond: gives the response over T tokens.
        inputs: ``u`` of shape ``(B, L, C, V)``, real.
        initial_state: ``(S, H, N)`` complex.
        cu_seqlens: checked int64 offsets of documents packed along ``L`` of a batch of one.
        chunk_size: largest T.
        backend: of the scan from chunk to chunk.

    Returns:
        ``y (B, L, C, V)`` and the final state ``(S, H, N)``.
    """
    if 0 in inputs.shape[:2]:
        return inputs, initial_state
    chunks = Chunks.of(inputs.shape[0], inputs.shape[1], cu_seqlens, chunk_size)
    with torch.autocast(inputs.device.type, enabled=False):
        response = respond(chunks.size)
        u = chunks.split(inputs)  # (chunks, C, T, V)
        states, before = _chunk_states(response, chunks, u, initial_state, backend)
        y = _by_channel(torch.cat([_toeplitz(response.kernel), response.read], dim=-1), torch.cat([u, before], dim=2))
        return chunks.join(y), _final(response, chunks, u, states, initial_state, cu_seqlens)


def _chunk_states(response: Response, chunks: Chunks, u: Tensor, initial: Tensor, backend: Backend) -> tuple[Tensor, Tensor]:
    """The complex states before every chunk ``(S, D, H, N)``, and the same as reals for each chunk ``(chunks, C, R, V)``."""
    summary = chunks.by_sequence(_by_channel(response.write.flip(-1), u))
    summary = _as_complex(summary, initial)
    over_chunk = response.powers[-1:].map_batch(lambda tensor, n_event: tensor.expand(*summary.shape[:2], *tensor.shape[1:]))
    after = scan(over_chunk, summary, initial, backend=backend).states
    before = torch.cat([initial.to(after.dtype).unsqueeze(1), after[:, :-1]], dim=1)
    return before, torch.view_as_real(chunks.by_chunk(before)).reshape(len(u), *response.write.shape[:2], u.shape[-1])


def _final(response: Response, chunks: Chunks, u: Tensor, before: Tensor, initial: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """The state after the last token: its chunk may be shorter than the others, so that its tokens count back from there."""
    size, rows = chunks.size, torch.arange(len(initial), device=u.device)
    lengths = torch.full_like(rows, chunks.shape[1]) if cu_seqlens is None else cu_seqlens.diff()
    last = (lengths - 1).clamp(min=0) // size
    filled = lengths - last * size
    tokens = torch.arange(size, device=u.device) - (size - filled).unsqueeze(1)
    place = tokens.clamp(min=0)[:, None, :, None]
    tail = chunks.by_sequence(u)[rows, last]
    tail = torch.where((tokens >= 0)[:, None, :, None], tail.gather(2, place.expand(tail.shape)), 0)
    written = _as_complex(_by_channel(response.write.flip(-1), tail), initial)
    powers = response.powers[filled].map_batch(lambda tensor, _: tensor.to(written.dtype))
    return powers.apply(before[rows, last]) + written


def _by_channel(matrix: Tensor, x: Tensor) -> Tensor:
    """``matrix (C, P, Q)`` times ``x (M, C, Q, V)``, as one product per channel: ``(M, C, P, V)``."""
    rows, channels, size, width = x.shape
    y = matrix @ x.permute(1, 2, 0, 3).reshape(channels, size, rows * width)
    return y.unflatten(-1, (rows, width)).permute(2, 0, 1, 3)


def _as_complex(x: Tensor, like: Tensor) -> Tensor:
    """Real numbers ``(..., C, R, V)`` in the layout of states ``(S, H, N)``."""
    return torch.view_as_complex(x.reshape(*x.shape[:-3], *like.shape[1:], 2).contiguous())


def _toeplitz(kernel: Tensor) -> Tensor:
    """``(C, T, T)`` lower triangular, with ``kernel[:, t - j]`` at row t and column j."""
    size = kernel.shape[-1]
    line = pad(kernel.flip(-1), (0, size - 1))  # entry (t, j) is at T - 1 - t + j
    return line.unfold(-1, size, 1).flip(-2)
