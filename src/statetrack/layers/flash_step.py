"""One token of a Flash PD-SSM layer in one kernel call, for decoding on a CPU.

A step of a few hundred thousand operations costs less than the calls that it is usually made of. The kernel reads the weights
themselves, so that it steps in only where nothing else would have a say: no gradient, no autocast, no hooks, and none of the
layer's parts replaced or wrapped. It reads off only the map that the router chose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from statetrack.layers.diagonal_generators import DiagonalGenerator
from statetrack.layers.readouts import StateReadout
from statetrack.scan.backends import NUMBA_MISSING

if TYPE_CHECKING:
    import numpy as np

    from statetrack.layers.flash_pd_ssm import FlashPDSSM

_MOST_ROWS = 4
"""With more, products of matrices read the weights less often."""

_PARTS = (nn.Linear, nn.Sequential, nn.GELU, nn.RMSNorm, DiagonalGenerator, StateReadout)


def one_call_step(layer: FlashPDSSM, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor] | None:
    """Output ``(B, E)`` and state ``(B, H, N)`` after the token ``x_t (B, E)``; None where the kernel must not or cannot run.

    What is given has been checked already: ``h (B, H, N)`` has a dtype that belongs to the weights'.
    """
    if not _applies(layer, x_t):
        return None
    from statetrack.scan.cpu.step_loops import flash_step

    diagonal, readout = layer.diagonal, layer.readout
    pairs = torch.view_as_real(h.detach().resolve_conj()).permute(0, 3, 1, 2) if h.is_complex() else h.detach().unsqueeze(1)
    pairs = pairs.contiguous()
    y, after = torch.empty_like(x_t, memory_format=torch.contiguous_format), torch.empty_like(pairs)
    flash_step(
        layer.orientation == "column",
        diagonal.rising,
        diagonal.kind != "decay_phase",
        _array(x_t.contiguous()),
        pairs.numpy(),
        _array(layer.scores),
        _array(layer.router.weight),
        _network(diagonal.magnitude, x_t),
        _optional(diagonal.rate(x_t.dtype), x_t),
        _network(diagonal.phase, x_t),
        _weight(layer.input, x_t),
        _network(readout.out, x_t),
        _gating(readout, x_t),
        torch.finfo(x_t.dtype).eps,
        _optional(readout.skip, x_t),
        y.numpy(),
        after.numpy(),
    )
    after = after.squeeze(1) if not h.is_complex() else torch.complex(after[:, 0], after[:, 1])
    return y, after


def _applies(layer: FlashPDSSM, x_t: Tensor) -> bool:
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or NUMBA_MISSING:
        return False
    if layer.backend not in ("auto", "cpu") or layer.diagonal.levels is not None:
        return False
    if x_t.device.type != "cpu" or x_t.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    if not 0 < x_t.shape[0] <= _MOST_ROWS:
        return False
    return all(_untouched(module, layer) for module in layer.modules()) and all(
        p.dtype == torch.float32 and p.device.type == "cpu" and p.is_contiguous() for p in layer.parameters()
    )


def _untouched(module: nn.Module, layer: nn.Module) -> bool:
    hooked = module._forward_hooks or module._forward_pre_hooks
    return not hooked and (module is layer or type(module) in _PARTS)


def _array(x: Tensor) -> np.ndarray[Any, Any]:
    return x.detach().numpy()


def _optional(x: Tensor | None, like: Tensor) -> np.ndarray[Any, Any]:
    return _array(like.new_empty(0) if x is None else x)


def _weight(linear: nn.Module | None, like: Tensor) -> np.ndarray[Any, Any]:
    return _array(linear.weight if isinstance(linear, nn.Linear) else like.new_empty(0, 0))


def _network(network: nn.Module | None, like: Tensor) -> tuple[np.ndarray[Any, Any], ...]:
    """``(first, first_bias, last, last_bias)``; what is absent is empty."""
    steps = list(network) if isinstance(network, nn.Sequential) else [network]
    linears = [step for step in steps if isinstance(step, nn.Linear)]
    found = [(_weight(linear, like), _optional(linear.bias, like)) for linear in linears]
    first, last = [(_weight(None, like), _optional(None, like))] * (2 - len(found)) + found
    return *first, *last


def _gating(readout: StateReadout, like: Tensor) -> tuple[np.ndarray[Any, Any], ...]:
    """``(selector, gate, norm)`` of the gated readout; empty for the others."""
    if readout.kind != "gated":
        return _weight(None, like), _weight(None, like), _optional(None, like)
    return _weight(readout.selector, like), _weight(readout.gate, like), _array(readout.head_norm.weight)
