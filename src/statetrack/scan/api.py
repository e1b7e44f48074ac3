"""One call for every recurrence ``h_t = A_t h_{t-1} + b_t``."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from statetrack._typing import Inexact, Int
from statetrack.errors import InvalidInputError
from statetrack.scan.backends import Backend, Save, Transitions, choose_backend
from statetrack.scan.offsets import checked_offsets
from statetrack.scan.run import scan_selected, scan_structure
from statetrack.structures import ColumnOneHot, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot, Structure

_HALF = (torch.float16, torch.bfloat16)


class ScanResult(NamedTuple):
    """Attributes:
    states: ``(B, L, H, N)``, the state after every token.
    final: ``(B, H, N)`` (or one row per packed document), the state after the last one.
    """

    states: Tensor
    final: Tensor


def scan(
    transitions: Transitions,
    inputs: Inexact[Tensor, "B L H N"] | None = None,
    initial_state: Inexact[Tensor, "rows H N"] | None = None,
    *,
    cu_seqlens: Int[Tensor, " offsets"] | None = None,
    backend: Backend = "auto",
    save: Save = "states",
) -> ScanResult:
    """Run ``h_t = A_t h_{t-1} + b_t`` along the second dimension.

    Args:
        transitions: a structure with batch dimensions ``(B, L, H)`` and state size ``N``; routed and mixed one-hot forms too.
        inputs: ``b`` of shape ``(B, L, H, N)``; None means 0.
        initial_state: ``(B, H, N)``; None means 0.
        cu_seqlens: ``(S + 1,)`` integer offsets of ``S`` documents packed along ``L`` of a batch of one; states never cross
            a border and ``initial_state`` and ``final`` have ``S`` rows.
        backend: ``"auto"`` takes the kernel where there is one; ``"reference"`` is the sequential loop, ``"tree"`` the
            associative scan.
        save: what the backward pass finds. ``"states"``, or, on the ``"triton"`` backend alone, ``"carries"``: the state that
            enters each chunk, from which it computes the others anew.

    Returns:
        States and final state, in the common dtype of the arguments (half precision is computed and returned in float32; the
        ``"triton"`` backend also reads it as it is).

    Raises:
        InvalidInputError: shapes, dtypes or offsets that do not fit.
        BackendError: the backend asked for cannot run here.

    Example:
        >>> decay = Diagonal(torch.full((1, 3, 1, 1), 0.5))
        >>> scan(decay, torch.ones(1, 3, 1, 1)).states.flatten().tolist()
        [1.0, 1.5, 1.75]
    """
    chosen = choose_backend(transitions, transitions.values, backend, save)
    reads_half = chosen == "triton"
    transitions, inputs, initial_state, offsets = _validated(transitions, inputs, initial_state, cu_seqlens, reads_half)
    with torch.autocast(transitions.values.device.type, enabled=False):
        if isinstance(transitions, RoutedOneHot | MixedOneHot):
            return ScanResult(*scan_selected(transitions, inputs, initial_state, offsets, chosen, save))
        return ScanResult(*scan_structure(transitions, inputs, initial_state, offsets, chosen, save))


def _validated(
    transitions: Transitions,
    inputs: Tensor | None,
    initial: Tensor | None,
    cu_seqlens: Tensor | None,
    reads_half: bool,
) -> tuple[Transitions, Tensor | None, Tensor, Tensor | None]:
    """Arguments with their defaults filled in, checked, and in one dtype, unless half precision may stay as it is."""
    values = transitions.values
    batch = transitions.batch_shape if isinstance(transitions, Structure) else values.shape[:-1]
    n = transitions.state_size
    if len(batch) != 3:
        raise InvalidInputError(f"transitions need batch dimensions (B, L, H), got {tuple(batch)}.")
    n_rows, length, n_heads = batch
    if inputs is not None and inputs.shape != (*batch, n):
        raise InvalidInputError(f"inputs need shape (B, L, H, N) = {(*batch, n)}, got {tuple(inputs.shape)}.")
    offsets = None if cu_seqlens is None else checked_offsets(cu_seqlens, n_rows, length)
    documents = n_rows if offsets is None else len(offsets) - 1
    if initial is not None and initial.shape != (documents, n_heads, n):
        raise InvalidInputError(
            f"initial_state needs shape (rows, H, N) = {(documents, n_heads, n)}, got {tuple(initial.shape)}."
        )
    dtype = values.dtype
    for other in (inputs, initial):
        dtype = dtype if other is None else torch.promote_types(dtype, other.dtype)
    if dtype in _HALF:
        dtype = torch.float32
    if not (dtype.is_floating_point or dtype.is_complex):
        raise InvalidInputError(f"scans need floating-point or complex tensors, got {dtype}.")
    if isinstance(transitions, ColumnOneHot | RowOneHot) and not torch.compiler.is_compiling() and transitions.index.numel():
        low, high = transitions.index.aminmax()
        if low < 0 or high >= n:
            raise InvalidInputError(f"index entries must lie in 0..{n - 1}, got {int(low)}..{int(high)}.")
    kept = _HALF if reads_half and dtype == torch.float32 else ()
    if values.dtype not in kept:
        transitions = _cast(transitions, dtype)
    if inputs is not None and inputs.dtype not in kept:
        inputs = inputs.to(dtype)
    if initial is None:
        initial = torch.zeros(documents, n_heads, n, dtype=dtype, device=values.device)
    return transitions, inputs, initial.to(dtype), offsets


def _cast(transitions: Transitions, dtype: torch.dtype) -> Transitions:
    if transitions.values.dtype == dtype:
        return transitions
    if isinstance(transitions, RoutedOneHot | MixedOneHot | ColumnOneHot | RowOneHot | Diagonal):
        return replace(transitions, value=transitions.value.to(dtype))
    return transitions.map_batch(lambda tensor, _: tensor.to(dtype))
