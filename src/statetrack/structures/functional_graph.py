"""Eigenvalues of a one-hot matrix from the cycles of its map ``q -> index[q]``."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def one_hot_eigenvalues(index: Tensor, value: Tensor) -> Tensor:
    """``(..., N)`` complex eigenvalues of a column- or row-one-hot matrix (its transpose has the same ones).

    States that lie on no cycle contribute 0. A cycle of length ``c`` whose entries multiply to ``w`` contributes the ``c``
    complex roots of ``z^c = w``.
    """
    n = index.shape[-1]
    maps = index.reshape(-1, n).long().cpu()
    entries = value.reshape(-1, n).detach().to(torch.complex128).cpu()
    out = torch.zeros(maps.shape, dtype=torch.complex128)
    for row, (step, entry) in enumerate(zip(maps.tolist(), entries, strict=True)):
        for cycle in cycles(step):
            product = complex(entry[cycle].prod())
            radius, angle = abs(product) ** (1 / len(cycle)), math.atan2(product.imag, product.real)
            turns = (angle + 2 * math.pi * torch.arange(len(cycle), dtype=torch.float64)) / len(cycle)
            out[row, cycle] = torch.polar(torch.full_like(turns, radius), turns)
    dtype = torch.complex128 if value.dtype in (torch.float64, torch.complex128) else torch.complex64
    return out.reshape(index.shape).to(device=value.device, dtype=dtype)


def cycles(step: list[int]) -> list[list[int]]:
    """The cycles of a map on ``range(len(step))``, by a three-colour walk."""
    colour = [0] * len(step)
    found = []
    for start in range(len(step)):
        path, q = [], start
        while colour[q] == 0:
            colour[q] = 1
            path.append(q)
            q = step[q]
        if colour[q] == 1:
            found.append(path[path.index(q) :])
        for seen in path:
            colour[seen] = 2
    return found
