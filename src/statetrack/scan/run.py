"""Running a scan whose arguments are checked, on the backend that was chosen."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from statetrack.scan.backends import Backend, Save
from statetrack.scan.mixture import mixture_choice, mixture_lift
from statetrack.scan.offsets import states_before
from statetrack.scan.reference import reference_scan
from statetrack.scan.straight_through import dense_selection, routed_lift
from statetrack.scan.tree import tree_scan
from statetrack.structures import ColumnOneHot, MixedOneHot, RoutedOneHot, RowOneHot, Structure
from statetrack.structures.orientation import choice_dim, one_hot_class


def scan_structure(
    transitions: Structure | RoutedOneHot,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
    backend: Backend,
    save: Save = "states",
) -> tuple[Tensor, Tensor]:
    """States and final state for transitions that are stored as they are, and routed ones on backends with kernels."""
    if backend == "cpu":
        return _cpu_scan(transitions, inputs, initial, offsets)
    if backend == "triton":
        return _gpu_scan(transitions, inputs, initial, offsets, save)
    run = reference_scan if backend == "reference" else tree_scan
    assert isinstance(transitions, Structure)
    return _by_document(run, transitions, inputs, initial, offsets)


def scan_selected(
    transitions: RoutedOneHot | MixedOneHot,
    inputs: Tensor | None,
    initial: Tensor,
    offsets: Tensor | None,
    backend: Backend,
    save: Save = "states",
) -> tuple[Tensor, Tensor]:
    """The same for hard choices, which receive straight-through gradients."""
    if backend == "reference":
        return _by_document(reference_scan, dense_selection(transitions), inputs, initial, offsets)
    if isinstance(transitions, RoutedOneHot) and backend in ("cpu", "triton"):
        return scan_structure(transitions, inputs, initial, offsets, backend, save)
    maps = _maps(transitions)
    if not _credits(transitions):
        return scan_structure(maps, inputs, initial, offsets, backend, save)
    # The choices are hard, so their credit enters through inputs that are exactly zero: the cotangent of an input is that of the
    # state it is added to, which is what a straight-through choice has to see.
    with torch.no_grad():
        states = scan_structure(maps, inputs, initial, offsets, backend)[0]
        before = states_before(states, initial, offsets)
    column = transitions.orientation == "column"
    value = transitions.value.detach()
    lift = _lift(transitions, value * before if column else before)
    lift = lift if column else value * lift
    return scan_structure(maps, lift if inputs is None else inputs + lift, initial, offsets, backend, save)


def _credits(transitions: RoutedOneHot | MixedOneHot) -> bool:
    if not torch.is_grad_enabled():
        return False
    if isinstance(transitions, MixedOneHot):
        return transitions.scores.requires_grad or transitions.mix.requires_grad
    return transitions.selection is not None


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


def _cpu_scan(
    transitions: Structure | RoutedOneHot, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:
    from statetrack.scan.cpu.dispatch import cpu_scan  # needs numba, which is not needed elsewhere

    return cpu_scan(transitions, inputs, initial, offsets)


def _gpu_scan(
    transitions: Structure | RoutedOneHot, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None, save: Save
) -> tuple[Tensor, Tensor]:
    from statetrack.scan.triton.dispatch import scan_on_gpu  # needs triton, which is optional

    return scan_on_gpu(transitions, inputs, initial, offsets, recompute=save == "carries")


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
