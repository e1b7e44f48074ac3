"""Balanced truncation of a stable time-invariant system, with its error bound and its measured error.

    h_t = A h_{t-1} + B u_t ,   y_t = C h_t ,   G(z) = C (I - A / z)^{-1} B ,   rho(A) < 1
    P = A P A^H + B B^H = S S^H ,   Q = A^H Q A + C^H C = R^H R ,   R S = U Sigma V^H
    W = S V_r Sigma_r^{-1/2} ,   Z^H = Sigma_r^{-1/2} U_r^H R ,   (A, B, C)_r = (Z^H A W, Z^H B, C W)
    |G - G_r|_inf <= 2 sum_{k > r} sigma_k          distinct sigmas are counted once

Letters: N = states, M = inputs, E = outputs, r = states kept, sigma = Hankel singular values. The Gramians are never formed:
their factors come from QR factorisations of ``[S, A^(2^k) S]``, which keeps sigmas below the root of the machine precision.
Sources: B. C. Moore, "Principal component analysis in linear systems", 1981; U. M. Al-Saggaf and G. F. Franklin, "An error bound
for a discrete reduced order model of a linear multivariable system", 1987.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError

_STEPS = 64
_SETTLED = 1e-30
_FREQUENCIES = 2048


@dataclass(frozen=True)
class System:
    """A time-invariant system.

    Attributes:
        a: ``(N, N)``.
        b: ``(N, M)``.
        c: ``(E, N)``.
    """

    a: Tensor
    b: Tensor
    c: Tensor

    @property
    def radius(self) -> float:
        """Largest modulus of an eigenvalue of A."""
        return float(torch.linalg.eigvals(self.a).abs().max())

    def response(self, frequencies: Tensor) -> Tensor:
        """``G(exp(i w))`` for angles ``(F,)``, ``(F, E, M)``."""
        z = torch.polar(torch.ones_like(frequencies), -frequencies)[:, None, None]
        eye = torch.eye(len(self.a), dtype=torch.complex128)
        return self.c.to(torch.complex128) @ torch.linalg.solve(eye - z * self.a, self.b.to(torch.complex128))

    def modes(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """The same system with a diagonal A: eigenvalues ``(size,)``, B and C; modes beyond its own N are never written or read.

        Raises:
            InvalidInputError: an A that cannot be diagonalised.
        """
        values, vectors = torch.linalg.eig(self.a)
        if float(torch.linalg.cond(vectors)) > 1e12:
            raise InvalidInputError(
                "The reduced matrix cannot be diagonalised to working precision; keep another number of states."
            )
        b, c = torch.linalg.solve(vectors, self.b.to(values.dtype)), self.c.to(values.dtype) @ vectors
        idle = size - len(values)
        pad = torch.nn.functional.pad
        return pad(values, (0, idle), value=0.5), pad(b, (0, 0, 0, idle)), pad(c, (0, idle))


@dataclass(frozen=True)
class Reduced:
    """A reduced system.

    Attributes:
        system: with r states.
        sigma: ``(N,)``, Hankel singular values of the whole system, largest first.
        bound: on the largest singular value of the difference at any frequency.
    """

    system: System
    sigma: Tensor
    bound: float


def hankel_values(system: System) -> Tensor:
    """Hankel singular values ``(N,)``, largest first.

    Raises:
        InvalidInputError: a system that is not stable.

    Example:
        >>> one = torch.ones(1, 1, dtype=torch.float64)
        >>> round(float(hankel_values(System(0.5 * one, one, one))[0]), 6)  # 1 / (1 - 0.25)
        1.333333
    """
    return torch.linalg.svdvals(_factors(system)[2])


def balanced_truncation(system: System, r: int) -> Reduced:
    """Reduce a system to its ``r`` strongest balanced states, or to those that carry anything, if these are fewer.

    Raises:
        InvalidInputError: a system that is not stable, or ``r`` below 1.
    """
    s, read, product = _factors(system)
    u, sigma, vh = torch.linalg.svd(product)
    if r < 1:
        raise InvalidInputError(f"the number of states kept must be at least 1, got {r}.")
    r = min(r, max(1, int((sigma > len(sigma) * torch.finfo(sigma.dtype).eps * sigma[0]).sum())))
    scale = sigma[:r].rsqrt()
    w, zh = s @ vh[:r].mH * scale, (u[:, :r] * scale).mH @ read
    return Reduced(System(zh @ system.a @ w, zh @ system.b, system.c @ w), sigma, error_bound(sigma, r))


def error_bound(sigma: Tensor, r: int) -> float:
    """Twice the sum of the distinct values that are dropped.

    Example:
        >>> error_bound(torch.tensor([4.0, 2.0, 1.0, 1.0, 0.5]), 2)
        3.0
    """
    dropped = [float(value) for value in sigma[r:]]
    distinct = [value for i, value in enumerate(dropped) if not i or dropped[i - 1] - value > 1e-12 * float(sigma[0])]
    return 2 * sum(distinct)


def measured_error(system: System, reduced: System) -> float:
    """Largest singular value of the difference over 2048 frequencies, denser where eigenvalues are near the circle."""
    even = torch.linspace(-math.pi, math.pi, _FREQUENCIES + 1, dtype=torch.float64)[:-1]
    peaks = torch.cat([torch.linalg.eigvals(each.a).angle() for each in (system, reduced)]).double()
    found = torch.linalg.matrix_norm(_difference(system, reduced, torch.cat([even, peaks])), 2)
    return float(found.max())


def _difference(system: System, reduced: System, w: Tensor) -> Tensor:
    return torch.cat([system.response(part) - reduced.response(part) for part in w.split(256)])


def _factors(system: System) -> tuple[Tensor, Tensor, Tensor]:
    """``S (N, N)``, ``R (N, N)`` and ``R S``."""
    radius = system.radius
    if not radius < 1:
        raise InvalidInputError(
            f"Balanced truncation needs eigenvalues inside the unit circle; the largest modulus is {radius:.6g}."
        )
    s = _factor(system.a, system.b).mH
    read = _factor(system.a.mH, system.c.mH)
    return s, read, read @ s


def _factor(a: Tensor, b: Tensor) -> Tensor:
    """``L (N, N)`` with ``L^H L = sum_k A^k B B^H A^(k H)``, by doubling."""
    n = len(a)
    rows, power = torch.linalg.qr(b.mH, mode="r").R, a
    for _ in range(_STEPS):
        rows = torch.linalg.qr(torch.cat([rows, rows @ power.mH]), mode="r").R
        power = power @ power
        if float(power.abs().max()) < _SETTLED:
            break
    return torch.nn.functional.pad(rows, (0, 0, 0, n - len(rows)))
