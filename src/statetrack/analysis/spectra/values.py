"""Eigenvalues as logs of moduli and angles, which hold products of thousands of transitions without underflow.

lambda = exp(log_modulus + i angle) ;   rate = exp(log_modulus / length)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_REAL = 1e-9
"""An eigenvalue whose imaginary part is smaller than this share of its modulus counts as real."""
_ZERO = 1e-9
"""A smaller modulus counts as 0."""


@dataclass(frozen=True)
class Shares:
    """Shares of the eigenvalues, over all tokens, rows, heads and states.

    Attributes:
        unit: modulus within ``near`` of 1.
        outside: modulus above ``1 + near``.
        zero: modulus below 1e-9.
        negative: real and negative.
        complex: not real.
        near: what counts as close to the circle.
        count: number of eigenvalues.
    """

    unit: float
    outside: float
    zero: float
    negative: float
    complex: float
    near: float
    count: int


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues with multiplicity, in no particular order.

    Attributes:
        log_modulus: ``(..., N)`` float64; ``-inf`` for 0.
        angle: ``(..., N)`` float64, in radians.
        length: number of transitions in the product that they belong to; 1 for single transitions.
        of: the family of the matrices.
    """

    log_modulus: Tensor
    angle: Tensor
    length: int
    of: str

    @classmethod
    def from_values(cls, values: Tensor, *, length: int, of: str, log_scale: Tensor | float = 0.0) -> Spectrum:
        """From complex eigenvalues of a matrix that was divided by ``exp(log_scale)``."""
        values = values.detach().to(torch.complex128)
        return cls(values.abs().log() + log_scale, values.angle(), length, of)

    @property
    def eigenvalues(self) -> Tensor:
        """``(..., N)`` complex128; those below about 1e-308 read 0."""
        return torch.polar(self.log_modulus.exp(), self.angle)

    @property
    def rates(self) -> Tensor:
        """Moduli per token, ``(..., N)``: the modulus to the power ``1 / length``."""
        return (self.log_modulus / self.length).exp()

    def shares(self, near: float = 0.01) -> Shares:
        """Where the eigenvalues lie."""
        modulus, values = self.log_modulus.exp(), self.eigenvalues
        lives = modulus > _ZERO
        real = values.imag.abs() <= _REAL * modulus
        masks = {
            "unit": (modulus - 1).abs() <= near,
            "outside": modulus > 1 + near,
            "zero": ~lives,
            "negative": lives & real & (values.real < 0),
            "complex": lives & ~real,
        }
        return Shares(**{name: float(mask.double().mean()) for name, mask in masks.items()}, near=near, count=modulus.numel())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        largest = float(self.rates.max())
        return {"of": self.of, "length": self.length, "largest_rate": largest, **vars(self.shares())}
