"""Singular values of what passes through the state between past and future, by two sweeps of small QR factorisations.

    H_i = O_i K_i ;   K_{i+1} = [A_i K_i, B_i] ;   O_i = [C_i; O_{i+1}] A_i
    RK[i + 1] = qr_R([RK[i] A_i^H; B_i^H]) ;   RO[i] = qr_R([RO[i + 1] A_i; C_i A_i]) ;   sigma(H_i) = sigma(RO[i] RK[i]^H)

Letters: L = tokens, N = state size, M = inputs, P = outputs; ``H_i`` maps inputs before token i to outputs from i on, ``K_i`` is
the state before token i per input, ``O_i`` the outputs per state. Exact for every linear recurrence in O(L N^3), where a dense
singular value decomposition takes O(L^3) for each i; no Gramian is formed, which would lose the values below the root of the
machine precision. Source: "Quantifying Memory Utilization with Effective State-Size" (arXiv 2504.19561) for the quantity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError


def hankel_singular_values(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Singular values of ``H_i`` for ``i = 1 .. L - 1``, largest first, ``(..., L - 1, N)``.

    Args:
        a: ``(..., L, N, N)``, transitions.
        b: ``(..., L, N, M)``, where inputs go.
        c: ``(..., L, P, N)``, what outputs read.

    Raises:
        InvalidInputError: shapes that do not fit.

    Example:
        >>> one = torch.ones(4, 1, 1)
        >>> hankel_singular_values(0.5 * one, one, one).shape
        torch.Size([3, 1])
    """
    if a.shape != (*a.shape[:-2], a.shape[-1], a.shape[-1]) or b.shape[:-1] != a.shape[:-1]:
        raise InvalidInputError(f"need a (..., L, N, N) and b (..., L, N, M); got {tuple(a.shape)} and {tuple(b.shape)}.")
    if c.shape[:-2] != a.shape[:-2] or c.shape[-1] != a.shape[-1]:
        raise InvalidInputError(f"need a (..., L, N, N) and c (..., L, P, N); got {tuple(a.shape)} and {tuple(c.shape)}.")
    return from_reads(a, b, c @ a)


def from_reads(a: Tensor, b: Tensor, read: Tensor, start: Tensor | None = None) -> Tensor:
    """The same from ``read = C_i A_i``, what outputs read from the state before their token.

    Args:
        a: ``(..., L, N, N)``.
        b: ``(..., L, N, M)``.
        read: ``(..., L, P, N)``.
        start: ``(..., N, M')``, states before the first token that count as inputs; None means none.
    """
    dtype = torch.promote_types(torch.promote_types(a.dtype, b.dtype), read.dtype)
    a, b, read = (t.to(dtype) for t in (a, b, read))
    length, n = a.shape[-3], a.shape[-1]
    past = torch.zeros(*a.shape[:-3], n, n, dtype=dtype) if start is None else triangle(start.to(dtype).mH, n)
    pasts = []
    for i in range(length - 1):
        past = triangle(torch.cat([past @ a[..., i, :, :].mH, b[..., i, :, :].mH], dim=-2), n)
        pasts.append(past)
    future = torch.zeros_like(past)
    found = []
    for i in range(length - 1, 0, -1):
        future = triangle(torch.cat([future @ a[..., i, :, :], read[..., i, :, :]], dim=-2), n)
        found.append(torch.linalg.svdvals(future @ pasts[i - 1].mH))
    real = dtype.to_real()
    return torch.stack(found[::-1], dim=-2) if found else torch.zeros(*a.shape[:-3], 0, n, dtype=real)


def triangle(rows: Tensor, n: int) -> Tensor:
    """The triangular factor ``(..., n, n)`` of rows ``(..., r, n)``, filled up with zeros."""
    r = torch.linalg.qr(rows, mode="r").R
    return torch.nn.functional.pad(r, (0, 0, 0, n - r.shape[-2]))
