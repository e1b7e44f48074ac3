"""Time-invariant layers as systems, and layers from reduced systems.

    h_t = A h_{t-1} + B u_t ;   y_t = Re(C h_t)          without skip and mixing, which stay as they are

A reduced matrix is dense and is diagonalised again, so that S4D, S5 and LRU stay what they are; a reduced LinOSS, whose
oscillators are pairs of a special form, becomes an LRU. The error bound of the complex system holds for the real part of its
output. Letters: N = modes, E = ``d_model``.
"""

from __future__ import annotations

import math
from functools import singledispatch

import torch
from torch import Tensor, nn

from statetrack.analysis.state_size.balanced import System
from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer, rebuilt
from statetrack.layers.discretisation import zero_order_hold
from statetrack.layers.fixed import FixedDiagonal, ModalLayer
from statetrack.layers.linoss import LinOSS
from statetrack.layers.lru import LRU
from statetrack.layers.s4d import S4D
from statetrack.layers.s5 import S5

_LEAST_PHASE = 1e-30
_CLIP = 1e-4


@singledispatch
@torch.no_grad()
def systems(layer: Layer) -> list[System]:
    """The systems of a layer in float64: one, or one per channel.

    Raises:
        InvalidInputError: a layer whose recurrence depends on the input, or is not known here.
    """
    depends = layer.traits.input_dependent
    reason = "its recurrence is not known here" if depends == "nothing" else f"its recurrence depends on the input ({depends})"
    raise InvalidInputError(f"{type(layer).__name__} is no stable time-invariant system: {reason}.")


@systems.register
@torch.no_grad()
def _(layer: FixedDiagonal) -> list[System]:
    decay, gain = (each.to(torch.complex128) for each in layer._modes())
    b, c = _maps(layer)
    return [System(torch.diag(decay), gain.unsqueeze(1) * b, c)]


@systems.register
@torch.no_grad()
def _(layer: LinOSS) -> list[System]:
    matrix, force = layer._oscillators()
    b, c = _maps(layer)
    positions = torch.stack([torch.zeros_like(c), c], dim=-1).flatten(1)
    written = (force.unsqueeze(-1) * b.unsqueeze(1)).flatten(0, 1)
    return [System(torch.block_diag(*matrix.double()).to(torch.complex128), written, positions)]


@systems.register
@torch.no_grad()
def _(layer: S4D) -> list[System]:
    decay, gain = (each.to(torch.complex128) for each in zero_order_hold(*layer._rates()))
    c = 2 * torch.view_as_complex(layer.C.detach().double().contiguous())
    return [System(torch.diag(d), g.unsqueeze(1), row.unsqueeze(0)) for d, g, row in zip(decay, gain, c, strict=True)]


def _maps(layer: ModalLayer) -> tuple[Tensor, Tensor]:
    """B ``(N, E)`` and C ``(E, N)``, with the factor of the readout."""
    re, im = layer.input.weight.detach().double().chunk(2)
    out = layer.readout.out
    assert isinstance(out, nn.Linear)
    left, right = out.weight.detach().double().chunk(2, dim=1)
    return torch.complex(re, im), layer.readout_factor * torch.complex(left, -right)


@torch.no_grad()
def with_systems(layer: Layer, reduced: list[System], r: int) -> Layer:
    """The layer with other systems of up to ``r`` modes in place of its own; skip and mixing are copied.

    Raises:
        InvalidInputError: a system that the layer's parameters cannot hold.
    """
    modes = [system.modes(r) for system in reduced]
    if isinstance(layer, S4D):
        smaller: Layer = rebuilt(layer, d_state=r)
        _set_s4d(smaller, layer, modes)
    elif isinstance(layer, S5):
        smaller = rebuilt(layer, d_state=r, n_blocks=1)
        _set_modes(smaller, layer, *modes[0])
    elif isinstance(layer, ModalLayer):
        glu = not isinstance(layer.mix, nn.Identity)
        smaller = rebuilt(layer, d_state=r) if isinstance(layer, LRU) else LRU(layer.d_model, d_state=r, glu=glu)
        smaller = smaller.to(next(layer.parameters())).train(layer.training)
        _set_modes(smaller, layer, *modes[0])
    else:
        raise InvalidInputError(f"A reduced {type(layer).__name__} is not known here.")
    for name in ("mix", "readout.skip", "D"):
        _copy(smaller, layer, name)
    return smaller


def _set_modes(new: Layer, old: Layer, values: Tensor, b: Tensor, c: Tensor) -> None:
    assert isinstance(new, ModalLayer)
    if isinstance(new, S5):
        _set_s5(new, values)
    else:
        assert isinstance(new, LRU)
        new.nu_log.copy_((-values.abs().log()).log())
        new.theta_log.copy_(values.angle().remainder(2 * math.pi).clamp(min=_LEAST_PHASE).log())
        new.gamma_log.copy_(0.5 * torch.log1p(-values.abs().square()))
    gain = new._modes()[1].to(torch.complex128)
    b, c = b / gain.unsqueeze(1), c / new.readout_factor
    out = new.readout.out
    assert isinstance(out, nn.Linear)
    new.input.weight.copy_(torch.cat([b.real, b.imag]))
    out.weight.copy_(torch.cat([c.real, -c.imag], dim=1))


def _set_s5(new: S5, values: Tensor) -> None:
    """Rates and time steps that give these eigenvalues; short time steps where clipping asks for fast rates."""
    rate = values.log() if new.discretization == "zoh" else 2 * (values - 1) / (values + 1)
    step = (-rate.real / (2 * _CLIP)).clamp(max=1.0) if new.clip else torch.ones_like(rate.real)
    new.Lambda_re.copy_(rate.real / step)
    new.Lambda_im.copy_(rate.imag / step)
    new.log_step.copy_(step.log())


def _set_s4d(new: Layer, old: S4D, modes: list[tuple[Tensor, Tensor, Tensor]]) -> None:
    assert isinstance(new, S4D)
    dt = old.log_dt.double().exp()
    values = torch.stack([each[0] for each in modes])
    rate = values.log() / dt.unsqueeze(1)
    new.log_dt.copy_(old.log_dt)
    new.log_A_real.copy_((-rate.real).log())
    new.A_imag.copy_(rate.imag)
    gain = zero_order_hold(rate, dt.unsqueeze(1))[1]
    both = torch.stack([b.squeeze(1) * c.squeeze(0) for _, b, c in modes]) / gain / 2
    new.C.copy_(torch.view_as_real(both))


def _copy(new: nn.Module, old: nn.Module, name: str) -> None:
    """Copy a part that both have, with its parameters."""
    for key, value in new.state_dict().items():
        if key == name or key.startswith(f"{name}."):
            value.copy_(old.state_dict()[key])
