"""One call for every recurrence ``h_t = A_t h_{t-1} + b_t``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from statetrack._typing import Inexact, Int
from statetrack.errors import InvalidInputError
from statetrack.scan.backends import Backend, Transitions, choose_backend
from statetrack.scan.mixture import mixture_choice, mixture_lift
from statetrack.scan.offsets import checked_offsets
from statetrack.scan.reference import reference_scan
from statetrack.scan.straight_through import dense_selection, routed_lift
from statetrack.scan.tree import tree_scan
from statetrack.structures import ColumnOneHot, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot, Structure
from statetrack.structures.orientation import choice_dim, one_hot_class


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

    Returns:
        States and final state, in the common dtype of the arguments (half precision is computed and returned in float32).

    Raises:
        InvalidInputError: shapes, dtypes or offsets that do not fit.
        BackendError: the backend asked for cannot run here.

    Example:
        >>> decay = Diagonal(torch.full((1, 3, 1, 1), 0.5))
        >>> scan(decay, torch.ones(1, 3, 1, 1)).states.flatten().tolist()
        [1.0, 1.5, 1.75]
    """
    transitions, inputs, initial_state, offsets = _validated(transitions, inputs, initial_state, cu_seqlens)
    chosen = choose_backend(transitions, transitions.values, backend)
    with torch.autocast(transitions.values.device.type, enabled=False):
        if isinstance(transitions, RoutedOneHot | MixedOneHot):
            return ScanResult(*_scan_selected(transitions, inputs, initial_state, offsets, chosen))
        return ScanResult(*_scan_structure(transitions, inputs, initial_state, offsets, chosen))


def _scan_structure(
    transitions: Structure, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None, backend: Backend
) -> tuple[Tensor, Tensor]:
    if backend == "cpu":
        return _scan_cpu(transitions, inputs, initial, offsets)
    run = reference_scan if backend == "reference" else tree_scan
    return _by_document(run, transitions, inputs, initial, offsets)


def _scan_selected(
    transitions: RoutedOneHot | MixedOneHot, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None, backend: Backend
) -> tuple[Tensor, Tensor]:
    if backend == "reference":
        return _by_document(reference_scan, dense_selection(transitions), inputs, initial, offsets)
    if backend == "cpu" and isinstance(transitions, RoutedOneHot):
        return _scan_cpu(transitions, inputs, initial, offsets)
    maps = _maps(transitions)
    if not _credits(transitions):
        return _scan_structure(maps, inputs, initial, offsets, backend)
    # The choices are hard, so their credit enters through inputs that are exactly zero: the cotangent of an input is that of the
    # state it is added to, which is what a straight-through choice has to see.
    with torch.no_grad():
        states = _scan_structure(maps, inputs, initial, offsets, backend)[0]
        before = _previous(states, initial, offsets)
    column = transitions.orientation == "column"
    value = transitions.value.detach()
    lift = _lift(transitions, value * before if column else before)
    lift = lift if column else value * lift
    return _scan_structure(maps, lift if inputs is None else inputs + lift, initial, offsets, backend)


def _credits(transitions: RoutedOneHot | MixedOneHot) -> bool:
    if not torch.is_grad_enabled():
        return False
    if isinstance(transitions, MixedOneHot):
        return transitions.scores.requires_grad or transitions.mix.requires_grad
    return transitions.selection is not None and transitions.routing is not None


def _maps(transitions: RoutedOneHot | MixedOneHot) -> ColumnOneHot | RowOneHot:
    if isinstance(transitions, RoutedOneHot):
        return transitions.expand()
    dim = choice_dim(transitions.orientation)
    index = mixture_choice(transitions.scores.detach(), transitions.mix.detach().flatten(0, 1), dim)
    return one_hot_class(transitions.orientation)(index.unflatten(0, transitions.mix.shape[:2]), transitions.value)


def _lift(transitions: RoutedOneHot | MixedOneHot, v: Tensor) -> Tensor:
    if isinstance(transitions, RoutedOneHot):
        return routed_lift(transitions, v)
    mix = transitions.mix.flatten(0, 1)
    lift = mixture_lift(transitions.scores, mix, v.flatten(0, 1), choice_dim(transitions.orientation))
    return lift.unflatten(0, v.shape[:2])


def _previous(states: Tensor, initial: Tensor, offsets: Tensor | None) -> Tensor:
    """The state before every token."""
    if offsets is None:
        return torch.cat([initial.unsqueeze(1), states[:, :-1]], dim=1) if states.shape[1] else states
    before = torch.roll(states, 1, dims=1)
    nonempty = offsets[1:] > offsets[:-1]
    before[0, offsets[:-1][nonempty]] = initial[nonempty]
    return before


def _scan_cpu(
    transitions: Structure | RoutedOneHot, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:
    from statetrack.scan.cpu.ops import diagonal_scan, one_hot_scan
    from statetrack.scan.cpu.routed import routed_scan

    value = transitions.values
    n_rows, length = value.shape[:2]
    if offsets is None:
        offsets = torch.arange(n_rows + 1) * length
    d, b = value.flatten(0, 1), None if inputs is None else inputs.flatten(0, 1)
    if isinstance(transitions, RoutedOneHot):
        dictionary, route = transitions.dictionary.to(torch.int16), transitions.route.flatten(0, 1).long()
        column = transitions.orientation == "column"
        if transitions.selection is not None and transitions.routing is not None:
            routing = transitions.routing.flatten(0, 1)
            states, final = routed_scan(
                dictionary, route, d, b, initial, offsets, transitions.selection, routing, column, transitions.full_credit
            )
        else:
            rows = torch.arange(dictionary.shape[0]) * dictionary.shape[1] + route
            states, final = one_hot_scan(dictionary.flatten(0, 1), rows, d, b, initial, offsets, column)
    elif isinstance(transitions, ColumnOneHot | RowOneHot):
        maps = transitions.index.expand(value.shape).to(torch.int16).flatten(0, 2)
        every = torch.empty(0, dtype=torch.int64)
        states, final = one_hot_scan(maps, every, d, b, initial, offsets, isinstance(transitions, ColumnOneHot))
    else:
        states, final = diagonal_scan(d, b, initial, offsets)
    return states.unflatten(0, (n_rows, length)), final


def _by_document(
    run: Callable[[Structure, Tensor | None, Tensor], tuple[Tensor, Tensor]],
    transitions: Structure,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
) -> tuple[Tensor, Tensor]:
    if offsets is None:
        return run(transitions, inputs, initial)
    parts = []
    for s, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        part = slice(start, stop)
        parts.append(run(transitions[:, part], None if inputs is None else inputs[:, part], initial[s : s + 1]))
    if not parts:
        return initial.new_empty(1, 0, *initial.shape[1:]), initial
    return torch.cat([states for states, _ in parts], dim=1), torch.cat([final for _, final in parts])


def _validated(
    transitions: Transitions, inputs: Tensor | None, initial: Tensor | None, cu_seqlens: Tensor | None
) -> tuple[Transitions, Tensor | None, Tensor, Tensor | None]:
    """Arguments with their defaults filled in, checked, and in one dtype."""
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
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    if not (dtype.is_floating_point or dtype.is_complex):
        raise InvalidInputError(f"scans need floating-point or complex tensors, got {dtype}.")
    if isinstance(transitions, ColumnOneHot | RowOneHot) and not torch.compiler.is_compiling() and transitions.index.numel():
        low, high = transitions.index.aminmax()
        if low < 0 or high >= n:
            raise InvalidInputError(f"index entries must lie in 0..{n - 1}, got {int(low)}..{int(high)}.")
    transitions = _cast(transitions, dtype)
    inputs = None if inputs is None else inputs.to(dtype)
    if initial is None:
        initial = torch.zeros(documents, n_heads, n, dtype=dtype, device=values.device)
    return transitions, inputs, initial.to(dtype), offsets


def _cast(transitions: Transitions, dtype: torch.dtype) -> Transitions:
    if transitions.values.dtype == dtype:
        return transitions
    if isinstance(transitions, RoutedOneHot | MixedOneHot | ColumnOneHot | RowOneHot | Diagonal):
        return replace(transitions, value=transitions.value.to(dtype))
    return transitions.map_batch(lambda tensor, _: tensor.to(dtype))
