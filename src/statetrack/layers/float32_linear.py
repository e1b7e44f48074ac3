"""A linear map whose weights decide a transition, and therefore stay float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from statetrack.layers.precision import KeepsFloat32, at_least_float32


class Float32Linear(KeepsFloat32, nn.Linear):
    """``W x + b`` in float32 or better, also under autocast and after ``.half()``.

    Args:
        in_features: width of the input.
        out_features: width of the output.
        bias: add ``b``.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.float32_parameters = ("weight", "bias") if bias else ("weight",)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return linear(at_least_float32(x), *self._coefficients())

    def _coefficients(self) -> tuple[Tensor, Tensor | None]:
        return self.weight, self.bias


class TanhLinear(Float32Linear):
    """``tanh(W) x + tanh(b)``: a linear map whose coefficients lie in (-1, 1)."""

    def _coefficients(self) -> tuple[Tensor, Tensor | None]:
        return self.weight.tanh(), None if self.bias is None else self.bias.tanh()
