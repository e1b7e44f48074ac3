"""The recurrence by chunks: everything inside a chunk is a matrix product, and chunks hand on one state each.

Within a chunk, with ``u_i = S_{i-1}^T y_i`` for what step i reads and <.,.> for inner products weakened by the decay in between:

    u_i = S_0^T y_i + sum_{j<i} <y_i, x_j> u_j + <y_i, k_j> v_j      a triangular system: U = P + W S_0
    o_t = S_0^T q_t + sum_j <q_t, x_j> u_j + <q_t, k_j> v_j          = O' + O'' S_0
    S_M = Diag(w_M ... w_1) S_0 + X^T U + K^T V                      = N' + N'' S_0

All of P, W, O', O'', N', N'' are found for all chunks at once; only ``S <- N' + N'' S`` runs in order. For x = -k one unknown
``v - u`` takes the place of two. Letters: M = steps, C = tokens per chunk, N = chunks, D = chunks per sequence. Source: DeltaNet
(arXiv 2406.06484), there the WY form of a product of Householder matrices; Gated DeltaNet (arXiv 2412.06464).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from statetrack.scan.chunks import Chunks
from statetrack.scan.decay import ChannelDecay, Decay, HeadDecay, NoDecay
from statetrack.scan.low_rank.sequential import Factors
from statetrack.scan.triangular import unit_lower_solve


class _Affine(NamedTuple):
    """``offset + linear @ S`` as a function of the state at the start of the chunk."""

    offset: Tensor
    linear: Tensor


def chunked_scan(
    factors: Factors, initial: Tensor, offsets: Tensor | None, substeps: int, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Outputs ``(B, L, H, V)`` and final states ``(rows, H, K, V)``."""
    q, k, v, x, y, log_decay = factors
    if not v.numel() or not q.numel():
        return v.new_zeros(*q.shape[:3], v.shape[-1]), initial
    chunks = Chunks.of(q.shape[0], q.shape[1], offsets, max(chunk_size // substeps, 1))
    split = Factors(
        chunks.split(q),
        chunks.split(k, substeps),
        chunks.split(v, substeps),
        None if x is None else chunks.split(x, substeps),
        chunks.split(y, substeps),
        None if log_decay is None else chunks.split(_in_first_step(log_decay, substeps), substeps),
    )
    outputs, after = _maps(split, substeps)
    starts, state = [], initial
    # Unbound once: indexing one chunk after another would cost a gradient of full size for each.
    steps = zip(*(chunks.by_sequence(part).unbind(1) for part in after), strict=True)
    for rank, (offset, linear) in enumerate(steps):
        starts.append(state)
        state = chunks.keep(rank, offset + linear @ state, state)
    start = chunks.by_chunk(torch.stack(starts, dim=1))
    return chunks.join(outputs.offset + outputs.linear @ start), state


def _in_first_step(log_decay: Tensor, substeps: int) -> Tensor:
    """``(B, L, ...)`` as ``(B, L * substeps, ...)`` with zeros in all other steps."""
    if substeps == 1:
        return log_decay
    others = log_decay.new_zeros(*log_decay.shape[:2], substeps - 1, *log_decay.shape[2:])
    return torch.cat([log_decay.unsqueeze(2), others], dim=2).flatten(1, 2)


def _decay(like: Tensor, log_decay: Tensor | None) -> Decay:
    if log_decay is None:
        return NoDecay(like)
    return HeadDecay(log_decay) if log_decay.ndim == 3 else ChannelDecay(log_decay)


def _maps(factors: Factors, substeps: int) -> tuple[_Affine, _Affine]:
    """Outputs ``(N, H, C, V)`` and the state after the chunk ``(N, H, K, V)`` for factors cut into chunks ``(N, H, M, ...)``."""
    q, k, v, x, y, log_decay = factors
    decay = _decay(k, log_decay)
    ends = slice(substeps - 1, None, substeps)
    # Each y reads what the step before it left, so its products stand one row further down.
    before = slice(0, k.shape[-2] - 1)
    reads = y * pad(decay.since_start[..., before, :], (0, 0, 1, 0), value=1.0)

    def by_y(keys: Tensor) -> Tensor:
        return pad(decay.products(y[..., 1:, :], keys, before), (0, 0, 1, 0))

    # unknown = solved[:V] + solved[V:] S_0 stands for v - u where x = -k, else for u.
    writes = k if x is None else x
    system = by_y(k) if x is None else -by_y(x)
    right = torch.cat([v, -reads] if x is None else [by_y(k) @ v, reads], dim=-1)
    solved = unit_lower_solve(system, right)
    sizes = [v.shape[-1], k.shape[-1]]
    late = decay.until_end
    output, output_by_state = (decay.products(q, writes, ends) @ solved).split(sizes, dim=-1)
    after, after_by_state = ((writes * late).mT @ solved).split(sizes, dim=-1)
    if x is not None:
        output = output + decay.products(q, k, ends) @ v
        after = after + (k * late).mT @ v
    output_by_state = output_by_state + q * decay.since_start[..., ends, :]
    kept = decay.since_start[..., -1, :].expand(*k.shape[:2], k.shape[-1])
    return _Affine(output, output_by_state), _Affine(after, after_by_state + torch.diag_embed(kept))
