"""Which code runs a scan: the choice is explicit, refused with a reason where it cannot run, and logged once."""

from __future__ import annotations

import importlib.util
import logging
from functools import lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor

from statetrack.errors import BackendError, InvalidInputError
from statetrack.scan.triton.availability import STATE_LIMIT, device_obstacle
from statetrack.structures import BlockDiagonal, ColumnOneHot, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot, Structure

Backend = Literal["auto", "reference", "tree", "cpu", "triton"]
PlainBackend = Literal["auto", "reference", "tree"]
"""For structures that have no kernel of their own."""
Save = Literal["states", "carries"]
Transitions = Structure | RoutedOneHot | MixedOneHot

_log = logging.getLogger("statetrack.scan")
_MAP_LIMIT = 1 << 16
_CPU_STRUCTURES = _GPU_STRUCTURES = (Diagonal, ColumnOneHot, RowOneHot, RoutedOneHot, MixedOneHot)


NUMBA_MISSING = importlib.util.find_spec("numba") is None
"""A constant rather than a call, so that ``torch.compile`` can see through it."""


def _cpu_obstacle(transitions: Transitions, device: str) -> str | None:
    if not isinstance(transitions, _CPU_STRUCTURES):
        return f"it has no kernel for {type(transitions).__name__}"
    if device != "cpu":
        return f"the tensors are on {device!r}"
    if transitions.state_size > _MAP_LIMIT:
        return f"state size {transitions.state_size} exceeds its 16-bit maps ({_MAP_LIMIT})"
    if NUMBA_MISSING:
        return "numba is not installed (pip install numba)"
    return None


def _gpu_obstacle(transitions: Transitions, device: str) -> str | None:
    if not isinstance(transitions, _GPU_STRUCTURES):
        return f"it has no kernel for {type(transitions).__name__}"
    if transitions.state_size > STATE_LIMIT and not isinstance(transitions, Diagonal):
        return f"state size {transitions.state_size} exceeds what one of its programs holds ({STATE_LIMIT})"
    return device_obstacle(device)


@lru_cache(maxsize=64)
def _announce(structure: str, backend: str, why: str) -> None:
    _log.info("scan of %s runs on the %s backend%s", structure, backend, why)


def choose_backend(transitions: Transitions, values: Tensor, backend: Backend, save: Save = "states") -> Backend:
    """The backend to use.

    Raises:
        InvalidInputError: no backend of that name.
        BackendError: the one asked for cannot run here; the message says why.
    """
    if backend not in get_args(Backend):
        raise InvalidInputError(f"backend {backend!r} is not one of {', '.join(get_args(Backend))}.")
    if save not in get_args(Save):
        raise InvalidInputError(f"save {save!r} is not one of {', '.join(get_args(Save))}.")
    chosen = _choose(transitions, values.device.type, backend)
    if save == "carries" and chosen != "triton":
        raise BackendError(f"save='carries' is for the triton backend, and this scan runs on {chosen!r}. Use save='states'.")
    return chosen


def _choose(transitions: Transitions, device: str, backend: Backend) -> Backend:
    name = type(transitions).__name__
    if backend in ("reference", "tree"):
        return backend
    on_gpu = backend == "triton" or (backend == "auto" and device == "cuda")
    obstacle = _gpu_obstacle(transitions, device) if on_gpu else _cpu_obstacle(transitions, device)
    if backend in ("cpu", "triton"):
        if obstacle:
            raise BackendError(f"backend {backend!r} cannot scan {name} here: {obstacle}. Use backend='tree' or 'auto'.")
        return backend
    if obstacle is None:
        chosen: Backend = "triton" if on_gpu else "cpu"
    else:
        # A product of dense matrices costs N^3, a step N^2: trees only pay where products are cheap.
        cheap = isinstance(transitions, (BlockDiagonal, *_CPU_STRUCTURES))
        chosen = "tree" if cheap else "reference"
    if not torch.compiler.is_compiling():
        _announce(name, chosen, f" ({obstacle})" if obstacle else "")
    return chosen
