"""Triangular systems ``(I + A) X = B`` with ``A`` strictly lower triangular, in batches."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.scan.decay import without_tiny


def unit_lower_solve(a: Tensor, b: Tensor, block: int = 16) -> Tensor:
    """``X (..., M, W)`` with ``(I + A) X = B``, for ``a (..., M, M)`` and ``b (..., M, W)``, real.

    Only the entries of ``a`` below its diagonal are read. Rows are solved in blocks, whose own systems are inverted, so that
    almost all the work is matrix products. Tiny numbers are taken as 0, for the sake of speed under strong decay.
    """
    size = a.shape[-1]
    eye = torch.eye(min(block, size), dtype=a.dtype, device=a.device)
    x = b[..., :0, :]
    for rows, right in zip(without_tiny(a).split(block, dim=-2), b.split(block, dim=-2), strict=True):
        above, n = x.shape[-2], rows.shape[-2]
        earlier, own, _ = rows.split([above, n, size - above - n], dim=-1)
        inverse = torch.linalg.solve_triangular(own, eye[:n, :n].expand(own.shape), upper=False, unitriangular=True)
        rest = right - earlier @ x if above else right
        x = torch.cat([x, without_tiny(without_tiny(inverse) @ without_tiny(rest))], dim=-2)
    return x
