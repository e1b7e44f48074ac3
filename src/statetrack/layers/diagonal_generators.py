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
from statetrack.layers.phase_choice import checked_levels, choose_root, harden
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.scan.parts import polar_diagonal

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
            it is raised to the power ``1 - progress``, so that it is exactly 1 when training ends. With ``phase_levels`` it is
            that of a mixture of phases, which hardens with ``progress`` and is one of them when training ends.
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
        self.mixes = phase_levels is not None and modulus == "annealed"
        if modulus != "unit" and not self.mixes:
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
        if self.phase is None:
            return self._modulus(u).unflatten(-1, self.shape)
        phase = at_least_float32(self.phase(u))
        if self.levels is not None:
            logits = phase.unflatten(-1, (*self.shape, self.levels))
            root = harden(logits, self.progress) if self.mixes else choose_root(logits)
            return self._modulus(u).to(phase.dtype).unflatten(-1, self.shape) * root
        decay, rate = self._decay(u)
        given = polar_diagonal(decay, rate, phase, rising=self.rising, turns=self.turns)
        return given.unflatten(-1, self.shape)

    def _modulus(self, u: Tensor) -> Tensor:
        decay, rate = self._decay(u)
        if decay is None:
            size = self.shape[0] * self.shape[1]
            return u.new_ones(*u.shape[:-1], size, dtype=torch.promote_types(u.dtype, torch.float32))
        log_modulus = -nn.functional.softplus(-decay if self.rising else decay)
        return (log_modulus if rate is None else log_modulus * rate).exp()

    def _decay(self, u: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Logits ``(..., H N)`` and rates ``(H N,)`` of the modulus, as ``polar_diagonal`` takes them."""
        if self.magnitude is None:
            return None, None
        logits = at_least_float32(self.magnitude(u))
        return logits, self.rate(logits.dtype)

    def rate(self, dtype: torch.dtype) -> Tensor | None:
        """``(H N,)``, what ``-softplus`` of the logits is multiplied by to give ``log |D|``; None for 1."""
        rate = self.a_log.to(dtype).exp() if self.kind == "decay_phase" else None
        if self.modulus != "annealed":
            return rate
        left = 1 - self.progress.to(dtype)
        return left.repeat(self.shape[0] * self.shape[1]) if rate is None else rate * left

    def logits(self, u: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Logits ``(..., H N)`` of the modulus (None: modulus 1), rates ``(H N,)`` and logits of the phase (None: real),
        in the precision of their projections."""
        decay = None if self.magnitude is None else self.magnitude(u)
        rate = None if decay is None else self.rate(torch.promote_types(decay.dtype, torch.float32))
        return decay, rate, None if self.phase is None else self.phase(u)

    @property
    def turns(self) -> bool:
        """Whether phases are ``2 pi sigmoid`` of their logits."""
        return self.kind != "decay_phase"

    @property
    def anneals(self) -> bool:
        """Whether values depend on ``progress``."""
        return self.modulus == "annealed"

    @property
    def rising(self) -> bool:
        """Whether the modulus rises with its logits."""
        return self.kind != "decay_phase"
