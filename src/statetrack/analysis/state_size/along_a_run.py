"""The smallest recurrence that repeats one run of any linear layer: balanced truncation at every cut between tokens.

    h_t = A_t h_{t-1} + B_t u_t ,   y_t = C_t h_t ,   H_i = O_i K_i : what inputs before token i leave to outputs from i on
    O_i K_i = U Sigma V^H ,   W_i = K_i V_r Sigma_r^{-1/2} ,   Z_i^H = Sigma_r^{-1/2} U_r^H O_i ,   Z_i^H W_i = 1
    full = A_i W_i g + B_i u_i ,   y_i = C_i full ,   g = Z_{i+1}^H full

Letters: L = tokens, N = states, M = inputs, P = outputs, r_i = states kept at cut i, g = reduced state. Outputs are the same
where r_i reaches the rank of H_i at every cut, for diagonal, PD, Householder and dense transitions alike. It holds for the gates
of this one run: gates of other inputs need other maps, and no single projection has a bound for all of them. Source: "Quantifying
Memory Utilization with Effective State-Size" (arXiv 2504.19561) for the quantity at the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from statetrack.analysis.state_use.two_sweeps import triangle
from statetrack.errors import InvalidInputError


@dataclass(frozen=True)
class ReducedRun:
    """A recurrence with a state of its own size at every cut.

    Attributes:
        a: per token ``(r_{i+1}, r_i)``.
        b: per token ``(r_{i+1}, M)``.
        c: per token ``(P, r_i)``, what an output reads of the state before its token.
        d: per token ``(P, M)``, what it reads of its own input.
        sigma: ``(L - 1, N)``, singular values of ``H_i`` for i = 1 .. L - 1.
    """

    a: list[Tensor]
    b: list[Tensor]
    c: list[Tensor]
    d: list[Tensor]
    sigma: Tensor

    @property
    def sizes(self) -> list[int]:
        """States at the cuts 1 .. L - 1."""
        return [a.shape[0] for a in self.a[:-1]]

    def outputs(self, u: Tensor) -> Tensor:
        """Outputs ``(L, P)`` for inputs ``(L, M)``, from an empty state."""
        g = self.a[0].new_zeros(self.a[0].shape[1])
        found = []
        for t, x in enumerate(u.to(g.dtype)):
            found.append(self.c[t] @ g + self.d[t] @ x)
            g = self.a[t] @ g + self.b[t] @ x
        return torch.stack(found)


def reduced_run(a: Tensor, b: Tensor, c: Tensor, *, most: int | None = None, rtol: float = 1e-12) -> ReducedRun:
    """Reduce the recurrence of one run.

    Args:
        a: ``(L, N, N)``, transitions.
        b: ``(L, N, M)``, where inputs go.
        c: ``(L, P, N)``, what outputs read after their token.
        most: states kept at a cut at most; None keeps all that carry anything.
        rtol: singular values below this share of the largest at any cut carry nothing.

    Raises:
        InvalidInputError: shapes that do not fit, or ``most`` below 1.

    Example:
        >>> eye, one = torch.eye(3).expand(5, 3, 3), torch.ones(5, 3, 1)
        >>> reduced_run(0.5 * eye, one, one.mT).sizes  # three states that move as one
        [1, 1, 1, 1]
    """
    if a.ndim != 3 or a.shape[1] != a.shape[2] or b.shape[:2] != a.shape[:2] or c.shape[::2] != a.shape[::2]:
        raise InvalidInputError(
            f"need a (L, N, N), b (L, N, M) and c (L, P, N); got {tuple(a.shape)}, {tuple(b.shape)} and {tuple(c.shape)}."
        )
    if most is not None and most < 1:
        raise InvalidInputError(f"most must be at least 1, got {most}.")
    wide = torch.complex128 if any(each.is_complex() for each in (a, b, c)) else torch.float64
    a, b, c = (each.detach().to(wide) for each in (a, b, c))
    length, n = a.shape[:2]
    pasts, futures = _sweeps(a, b, c)
    products = torch.stack([futures[i] @ pasts[i].mH for i in range(1, length)]) if length > 1 else a.new_zeros(0, n, n)
    u, sigma, vh = torch.linalg.svd(products)
    floor = rtol * float(sigma.max()) if length > 1 else 0.0
    into, out = [a.new_zeros(n, 0)], [a.new_zeros(0, n)]
    for i in range(1, length):
        r = int((sigma[i - 1] > floor).sum())
        r = r if most is None else min(r, most)
        scale = sigma[i - 1, :r].rsqrt().to(wide)
        into.append(pasts[i].mH @ vh[i - 1, :r].mH * scale)
        out.append(scale.unsqueeze(1) * (u[i - 1, :, :r].mH @ futures[i]))
    out.append(a.new_zeros(0, n))
    return ReducedRun(
        a=[out[i + 1] @ a[i] @ into[i] for i in range(length)],
        b=[out[i + 1] @ b[i] for i in range(length)],
        c=[c[i] @ a[i] @ into[i] for i in range(length)],
        d=[c[i] @ b[i] for i in range(length)],
        sigma=sigma,
    )


def _sweeps(a: Tensor, b: Tensor, c: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Triangular factors ``(N, N)`` of the state before token i per input, and of the outputs from i on per state."""
    length, n = a.shape[:2]
    pasts, futures = [a.new_zeros(n, n)], [a.new_zeros(n, n)]
    for i in range(length - 1):
        pasts.append(triangle(torch.cat([pasts[-1] @ a[i].mH, b[i].mH]), n))
    for i in range(length - 1, 0, -1):
        futures.append(triangle(torch.cat([futures[-1], c[i]]), n) @ a[i])
    futures.append(a.new_zeros(n, n))
    return pasts, futures[:0:-1]
