"""One call for the delta rule and its family: matrix states, rank-one corrections.

    S_i = Diag(w_i) S_{i-1} + x_i (y_i^T S_{i-1}) + k_i v_i^T ;   o_t = S^T q_t after the last step i of token t

Letters: B = rows, L = tokens, R = ``substeps`` (steps per token), H = heads, K = key size, V = value size, S = state ``(K, V)``.
Sources: DeltaNet (arXiv 2406.06484), Gated DeltaNet (arXiv 2412.06464), DeltaProduct (arXiv 2502.10297).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from statetrack._typing import Float, Int
from statetrack.errors import InvalidInputError
from statetrack.scan.low_rank.chunked import chunked_scan
from statetrack.scan.low_rank.sequential import Factors, sequential_scan
from statetrack.scan.offsets import checked_offsets

LowRankBackend = Literal["auto", "reference", "chunk"]


class LowRankResult(NamedTuple):
    """Attributes:
    outputs: ``(B, L, H, V)``.
    final: ``(B, H, K, V)`` (or one row per packed document), the state after the last token.
    """

    outputs: Tensor
    final: Tensor


def low_rank_scan(
    q: Float[Tensor, "B L H K"],
    k: Float[Tensor, "B LR H K"],
    v: Float[Tensor, "B LR H V"],
    x: Float[Tensor, "B LR H K"] | None,
    y: Float[Tensor, "B LR H K"],
    *,
    log_decay: Float[Tensor, "B L H"] | Float[Tensor, "B L H K"] | None = None,
    initial_state: Float[Tensor, "rows H K V"] | None = None,
    cu_seqlens: Int[Tensor, " offsets"] | None = None,
    substeps: int = 1,
    chunk_size: int = 32,
    backend: LowRankBackend = "auto",
) -> LowRankResult:
    """Run ``S <- Diag(w) S + x (y^T S) + k v^T`` along the second dimension and read ``o = S^T q``.

    Args:
        q: ``(B, L, H, K)``, what reads the state after each token.
        k: ``(B, L * R, H, K)``, where values are written.
        v: ``(B, L * R, H, V)``, the values.
        x: ``(B, L * R, H, K)``, where corrections are written; None means ``-k``, which costs half as much: the correction
            and the value are then one write ``k (v - S^T y)^T``, the delta rule.
        y: ``(B, L * R, H, K)``, what corrections read: the state before the step, also before its decay.
        log_decay: ``log w``, at most 0 (``-inf`` forgets everything): ``(B, L, H)`` one per head, or ``(B, L, H, K)``; it acts in
            the first step of a token. None means 0.
        initial_state: ``(B, H, K, V)``; None means 0.
        cu_seqlens: ``(S + 1,)`` integer offsets, in tokens, of ``S`` documents packed along ``L`` of a batch of one; states
            never cross a border and ``initial_state`` and ``final`` have ``S`` rows.
        substeps: R, steps per token; steps of one token follow one another in ``k``, ``v``, ``x`` and ``y``.
        chunk_size: M, most steps that are treated at once. Time is O(L R (M + K) (K + V)).
        backend: ``"chunk"`` works on whole chunks, ``"reference"`` is the loop over steps; ``"auto"`` takes the loop for a
            single step and chunks otherwise.

    Returns:
        Outputs and final state in the common dtype of the arguments (half precision is computed and returned in float32).

    Raises:
        InvalidInputError: shapes, dtypes or offsets that do not fit, an unknown backend.

    Example:
        >>> q = k = torch.tensor([[[[1.0, 0.0]], [[1.0, 0.0]]]])
        >>> v = torch.tensor([[[[3.0]], [[5.0]]]])
        >>> low_rank_scan(q, k, v, None, k).outputs.flatten().tolist()  # the second value takes the place of the first
        [3.0, 5.0]
    """
    _check(q, k, v, x, y, log_decay, initial_state, substeps, chunk_size, backend)
    offsets = None if cu_seqlens is None else checked_offsets(cu_seqlens, *q.shape[:2])
    rows = q.shape[0] if offsets is None else len(offsets) - 1
    shape = (rows, *q.shape[2:], v.shape[-1])
    if initial_state is not None and initial_state.shape != shape:
        raise InvalidInputError(f"initial_state needs shape (rows, H, K, V) = {shape}, got {tuple(initial_state.shape)}.")
    dtype = torch.float32
    for tensor in (q, k, v, x, y, log_decay, initial_state):
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    initial = q.new_zeros(shape, dtype=dtype) if initial_state is None else initial_state.to(dtype)
    x, log_decay = (None if tensor is None else tensor.to(dtype) for tensor in (x, log_decay))
    factors = Factors(q.to(dtype), k.to(dtype), v.to(dtype), x, y.to(dtype), log_decay)
    single = q.shape[1] * substeps == 1
    with torch.autocast(q.device.type, enabled=False):
        if backend == "reference" or (backend == "auto" and single):
            return LowRankResult(*sequential_scan(factors, initial, offsets, substeps))
        return LowRankResult(*chunked_scan(factors, initial, offsets, substeps, chunk_size))


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    x: Tensor | None,
    y: Tensor,
    log_decay: Tensor | None,
    initial_state: Tensor | None,
    substeps: int,
    chunk_size: int,
    backend: str,
) -> None:
    if backend not in get_args(LowRankBackend):
        raise InvalidInputError(f"backend {backend!r} is not one of {', '.join(get_args(LowRankBackend))}.")
    if min(substeps, chunk_size) < 1:
        raise InvalidInputError(f"substeps and chunk_size must be at least 1; got {substeps} and {chunk_size}.")
    if q.ndim != 4:
        raise InvalidInputError(f"q needs shape (B, L, H, K), got {tuple(q.shape)}.")
    rows, length, heads, keys = q.shape
    steps = (rows, length * substeps, heads)
    for name, tensor in (("k", k), ("x", x), ("y", y)):
        if tensor is not None and tensor.shape != (*steps, keys):
            raise InvalidInputError(f"{name} needs shape (B, L * substeps, H, K) = {(*steps, keys)}, got {tuple(tensor.shape)}.")
    if v.ndim != 4 or v.shape[:3] != steps:
        raise InvalidInputError(f"v needs shape (B, L * substeps, H, V) with {steps} in front, got {tuple(v.shape)}.")
    if log_decay is not None and log_decay.shape not in (q.shape[:3], q.shape):
        raise InvalidInputError(
            f"log_decay needs shape (B, L, H) or (B, L, H, K) of q {tuple(q.shape)}, got {tuple(log_decay.shape)}."
        )
    for name, tensor in (("q", q), ("k", k), ("v", v), ("x", x), ("y", y), ("log_decay", log_decay), ("state", initial_state)):
        if tensor is not None and not tensor.dtype.is_floating_point:
            raise InvalidInputError(f"{name} needs a real floating-point dtype, got {tensor.dtype}.")
