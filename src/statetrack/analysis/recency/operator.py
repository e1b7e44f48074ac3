"""The causal operator of a layer on one input: each output as a sum over the tokens that wrote what it reads.

    y_t = sum_{s < t} c_ts + c_tt + start_t ;   c_ts = R_t Phi(t-1, s) w_s ,   Phi(t, s) = A_t ... A_{s+1}

Letters: B = rows, L = tokens, E = ``d_model``, H = heads, N = state size; w = what a token writes, ``R_t`` = what output t reads
from the state before token t, with norms and gates held at their values (``frozen``). The diagonal ``c_tt`` holds what does not
pass through the state before t: the token's own write, skips and biases. Where a plain T x T matrix of scalars exists, because B
and C of a system are known, ``system_operator`` gives it. Sources: hidden attention of Mamba (arXiv 2403.01590), the unified view
with convolution and gates (arXiv 2405.16504).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from statetrack.analysis.recency.readouts import readouts
from statetrack.analysis.recency.unrolled import Unrolled, checked_input, has_states, in_float64, unroll
from statetrack.analysis.recency.vjp import jacobian_rows
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.structures import Structure


@dataclass(frozen=True)
class Operator:
    """Contributions of tokens to outputs.

    Attributes:
        vectors: ``(B, L, L, E)``, what token s (third dimension) contributes to output t (second); 0 for s > t. None if only
            sizes were asked for.
        sizes: ``(B, L, L)``, lengths of these vectors.
        start: ``(B, L, E)``, what the state before the first token contributes.
        outputs: ``(B, L, E)``, which is ``start`` plus the sum of the vectors.
        heads: ``(B, H, L, L)`` lengths of what each head carries from s to t, for s < t; None for layers without a state, or if
            they were not asked for.
        exact: whether it was read off transitions; otherwise ``c_ts = (dy_t / dx_s) x_s`` for s < t, a linearisation.
    """

    vectors: Tensor | None
    sizes: Tensor
    start: Tensor
    outputs: Tensor
    heads: Tensor | None
    exact: bool


def operator(layer: Layer, x: Tensor, *, vectors: bool = True, heads: bool = True, block: int = 32) -> Operator:
    """The causal operator of a layer on an input, in float64.

    Costs O(L^2 H N (1 + E)) time; memory is what is returned, all states of the run and ``block`` rows of readouts ``(E, H N)``.
    For long inputs leave out ``vectors`` and ``heads``: then it is O(L^2 + L H N). Layers without a state of constant size
    (attention) get the linearisation ``(dy_t / dx_s) x_s`` instead.

    Args:
        layer: any layer.
        x: ``(B, L, d_model)``.
        vectors: keep the contributions themselves and not only their lengths.
        heads: keep the lengths by head.
        block: output tokens that are treated at once.

    Raises:
        InvalidInputError: an ``x`` that does not fit, or a block below 1.

    Example:
        >>> from statetrack.layers import make_layer
        >>> found = operator(make_layer("mamba", 4, d_state=2), torch.randn(1, 6, 4))
        >>> found.sizes.shape, bool(torch.allclose(found.vectors.sum(2) + found.start, found.outputs))
        (torch.Size([1, 6, 6]), True)
    """
    if block < 1:
        raise InvalidInputError(f"block must be at least 1, got {block}.")
    if not has_states(layer):
        return _linearised(layer, x, vectors)
    run = unroll(layer, x)
    parts = list(_rows(run, block, vectors, heads))
    kept, sizes, start, by_head = (list(column) for column in zip(*parts, strict=True))
    return Operator(
        vectors=torch.cat([k for k in kept if k is not None], dim=1) if vectors else None,
        sizes=torch.cat(sizes, dim=1),
        start=torch.cat(start, dim=1),
        outputs=run.outputs,
        heads=torch.cat([h for h in by_head if h is not None], dim=2) if heads else None,
        exact=layer.traits.linear,
    )


def _rows(
    run: Unrolled, block: int, vectors: bool, with_heads: bool
) -> Iterator[tuple[Tensor | None, Tensor, Tensor, Tensor | None]]:
    """Contributions to ``block`` outputs at a time: vectors, sizes ``(B, T, L)``, start, heads ``(B, H, T, L)``."""
    n_rows, length, _ = run.x.shape
    writes, n_heads = run.writes, run.view.n_heads
    # Pushed through the transitions: what is left of every write, and of the first state, in the state before token t.
    pushed = torch.zeros_like(writes).movedim(1, 0)  # (L, B, H, N, V)
    start = run.h[:, 0]
    for first in range(0, length, block):
        tokens = slice(first, min(first + block, length))
        read = readouts(run, tokens)  # (B, T, E, H, N, V)
        size = read.shape[1]
        rows = run.outputs.new_zeros(n_rows, size, length, run.outputs.shape[-1])
        heads = run.outputs.new_zeros(n_rows, n_heads, size, length if with_heads else 0)
        from_start = run.outputs.new_zeros(n_rows, size, run.outputs.shape[-1])
        for i, t in enumerate(range(tokens.start, tokens.stop)):
            by_head = torch.einsum("behnv,sbhnv->bshe", read[:, i].conj(), pushed[:t]).real
            if with_heads:
                heads[:, :, i, :t] = by_head.norm(dim=-1).transpose(1, 2)
            rows[:, i, :t] = by_head.sum(2)
            from_start[:, i] = torch.einsum("behnv,bhnv->be", read[:, i].conj(), start).real
            rows[:, i, t] = run.outputs[:, t] - rows[:, i, :t].sum(1) - from_start[:, i]
            step = run.transitions[:, t]
            pushed[:t] = _moved(step, pushed[:t])
            start = _moved(step, start)
            pushed[t] = writes[:, t]
        yield rows if vectors else None, rows.norm(dim=-1), from_start, heads if with_heads else None


def _moved(step: Structure, h: Tensor) -> Tensor:
    """``A h`` for ``h (..., B, H, N, V)`` and transitions ``(B, H)``."""
    return step.apply(h.movedim(-1, 0)).movedim(0, -1)


def _linearised(layer: Layer, x: Tensor, vectors: bool) -> Operator:
    layer = in_float64(layer)
    x = checked_input(layer, x)
    with torch.no_grad():
        outputs = layer(x)[0]
    jacobian = jacobian_rows(lambda u: layer(u)[0], x, range(x.shape[1]))  # (B, T, E, L, E)
    rows = torch.einsum("btesd,bsd->btse", jacobian, x)
    before = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(-1)
    rows = rows * before[..., None]
    each = torch.arange(x.shape[1])
    rows[:, each, each] = outputs - rows.sum(2)
    return Operator(rows if vectors else None, rows.norm(dim=-1), torch.zeros_like(outputs), outputs, None, False)


def system_operator(transitions: Structure, b: Tensor, c: Tensor) -> Tensor:
    """``T[t, s] = C_t A_t ... A_{s+1} B_s`` of known systems, ``(B, H, L, L)``; 0 for s > t.

    Args:
        transitions: batch dimensions ``(B, L, H)``.
        b: ``(B, L, H, N)``, where an input goes.
        c: ``(B, L, H, N)``, what an output reads.

    Raises:
        InvalidInputError: shapes that do not fit.

    Example:
        >>> from statetrack.structures import Diagonal
        >>> one = torch.ones(1, 3, 1, 1)
        >>> system_operator(Diagonal(0.5 * one), one, one)[0, 0]
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 1.0000, 0.0000],
                [0.2500, 0.5000, 1.0000]])
    """
    shape = (*transitions.batch_shape, transitions.state_size)
    if b.shape != shape or c.shape != shape:
        raise InvalidInputError(f"b and c need shape (B, L, H, N) = {shape}, got {tuple(b.shape)} and {tuple(c.shape)}.")
    n_rows, length, n_heads, _ = shape
    dtype = torch.promote_types(torch.promote_types(b.dtype, c.dtype), transitions.dtype)
    out = torch.zeros(n_rows, n_heads, length, length, dtype=dtype)
    pushed = torch.zeros(length, n_rows, n_heads, shape[-1], dtype=dtype)
    for t in range(length):
        pushed[:t] = transitions[:, t].apply(pushed[:t])
        pushed[t] = b[:, t]
        out[:, :, t, : t + 1] = torch.einsum("bhn,sbhn->bhs", c[:, t].to(dtype), pushed[: t + 1])
    return out


def hidden_attention(layer: Layer, x: Tensor, *, block: int = 32) -> Tensor:
    """Shares of the tokens in every output, ``(B, L, L)``: lengths of contributions, divided so that each row sums to 1.

    Contributions may cancel or turn, so these are sizes and no attention weights; for the influence of a token see ``influence``.
    """
    sizes = operator(layer, x, vectors=False, heads=False, block=block).sizes
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)


def rollout(attentions: list[Tensor], *, residual: float = 0.5) -> Tensor:
    """Shares of the first inputs in the last outputs of a stack, ``(B, L, L)``: the product of each layer's shares with its
    residual path.

    Args:
        attentions: ``(B, L, L)`` per layer, from the input up, rows summing to 1.
        residual: weight of the path around each layer.
    """
    if not attentions or not 0 <= residual <= 1:
        raise InvalidInputError(f"rollout needs a layer and a residual in [0, 1]; got {len(attentions)} and {residual}.")
    eye = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype, device=attentions[0].device)
    total = eye.expand_as(attentions[0])
    for each in attentions:
        total = (residual * eye + (1 - residual) * each) @ total
    return total
