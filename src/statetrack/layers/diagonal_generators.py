"""The diagonal ``D(u)`` of a PD or diagonal layer: ways to compute it from the layer's input.

Letters: E = ``d_model``, H = heads, N = state size per head. Source: PD-SSM (arXiv 2509.22284), section on generators;
``decay_phase`` follows the Mamba-like reading of Flash PD-SSM (arXiv 2605.19150).
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.phase_choice import checked_levels, choose_root
from statetrack.layers.precision import KeepsFloat32, at_least_float32

Generator = Literal["mlp", "affine", "decay_phase"]
Field = Literal["complex", "real"]
Modulus = Literal["sigmoid", "unit", "annealed"]


def checked(option: str, value: str, allowed: object) -> str:
    """``value``, if ``allowed`` (a ``Literal``) has it."""
    if value not in get_args(allowed):
        raise InvalidInputError(f"{option} must be one of {', '.join(get_args(allowed))}; got {value!r}.")
    return value


def _network(kind: str, d_model: int, width: int, out: int) -> nn.Module:
    if kind == "affine":
        return nn.Linear(d_model, out)
    return nn.Sequential(nn.Linear(d_model, width), nn.GELU(), nn.Linear(width, out))


def _last_bias(network: nn.Module) -> Tensor:
    linear = network[-1] if isinstance(network, nn.Sequential) else network
    assert isinstance(linear, nn.Linear)
    return linear.bias


class DiagonalGenerator(KeepsFloat32):
    """``D(u) = |D(u)| exp(i phi(u))``, of shape ``(B, L, H, N)`` from ``u (B, L, E)``.

    Args:
        d_model: E.
        n_heads: H.
        d_state: N.
        kind: ``"mlp"`` (two layers, GELU), ``"affine"``, or ``"decay_phase"`` (modulus ``exp(-softplus(dt) exp(A_log))``,
            phase linear).
        field: ``"complex"``, or ``"real"``: no phase, ``D = |D|``.
        modulus: ``"sigmoid"`` keeps it below 1; ``"unit"`` fixes it at 1; ``"annealed"`` moves from the first to the second:
            it is raised to the power ``1 - progress``, so that it is exactly 1 when training ends.
        hidden: width of the MLPs' hidden layer as a multiple of ``H N``.
        magnitude_bias: initial bias of the modulus logits; None keeps ``nn.Linear``'s.
        phase_levels: Q, phases are picked among the multiples of ``2 pi / Q``; None allows all.

    Raises:
        InvalidInputError: an unknown choice, fewer than 2 levels, or levels for a real field.
    """

    progress: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_state: int,
        *,
        kind: Generator = "mlp",
        field: Field = "complex",
        modulus: Modulus = "sigmoid",
        hidden: int = 2,
        magnitude_bias: float | None = None,
        phase_levels: int | None = None,
    ) -> None:
        super().__init__()
        self.levels = checked_levels(phase_levels)
        if phase_levels is not None and field == "real":
            raise InvalidInputError("phase_levels needs d_field='complex'; a real diagonal has no phases.")
        self.kind = checked("d_generator", kind, Generator)
        self.field = checked("d_field", field, Field)
        self.modulus = checked("modulus", modulus, Modulus)
        self.shape = (n_heads, d_state)
        size = n_heads * d_state
        self.magnitude = self.phase = None
        if modulus != "unit":
            self.magnitude = _network("affine" if kind == "decay_phase" else kind, d_model, hidden * size, size)
            if kind == "decay_phase":
                dt = torch.empty(size).uniform_(1e-3, 1e-1)
                self.float32_parameters = ("a_log",)
                self.a_log = nn.Parameter(torch.empty(size).uniform_(math.log(0.05), 0.0))
                with torch.no_grad():
                    _last_bias(self.magnitude).copy_(dt + torch.log(-torch.expm1(-dt)))
            elif magnitude_bias is not None:
                nn.init.constant_(_last_bias(self.magnitude), magnitude_bias)
        if field == "complex":
            out = size if phase_levels is None else size * phase_levels
            self.phase = _network("affine" if kind == "decay_phase" else kind, d_model, hidden * size, out)
        self.register_buffer("progress", torch.zeros(()))

    def forward(self, u: Tensor) -> Tensor:
        modulus = self._modulus(u)
        if self.phase is None:
            return modulus.unflatten(-1, self.shape)
        phase = at_least_float32(self.phase(u))
        if self.levels is not None:
            root = choose_root(phase.unflatten(-1, (*self.shape, self.levels)))
            return modulus.to(phase.dtype).unflatten(-1, self.shape) * root
        if self.kind != "decay_phase":
            phase = 2 * math.pi * phase.sigmoid()
        return torch.polar(modulus.to(phase.dtype), phase).unflatten(-1, self.shape)

    def _modulus(self, u: Tensor) -> Tensor:
        size = self.shape[0] * self.shape[1]
        if self.magnitude is None:
            return u.new_ones(*u.shape[:-1], size, dtype=torch.promote_types(u.dtype, torch.float32))
        logits = self.magnitude(u)
        logits = at_least_float32(logits)
        if self.kind == "decay_phase":
            log_modulus = -nn.functional.softplus(logits) * self.a_log.to(logits.dtype).exp()
        else:
            log_modulus = nn.functional.logsigmoid(logits)
        if self.modulus == "annealed":
            log_modulus = log_modulus * (1 - self.progress.to(logits.dtype))
        return log_modulus.exp()
