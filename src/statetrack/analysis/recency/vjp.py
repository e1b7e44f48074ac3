"""Jacobians and their sizes by vector-Jacobian products, many cotangents in one backward pass.

Rows of a batch are independent, so a batch of copies with a cotangent each costs one pass.

Letters: B = rows, L = tokens, T = outputs asked for, E = width of outputs, D = width of inputs, K = cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor

from statetrack.layers.repetition import every_token_alone

Item = TypeVar("Item")

_ROWS = 256
"""Rows of a batch that are differentiated at once."""


def jacobian_rows(function: Callable[[Tensor], Tensor], x: Tensor, positions: Iterable[int]) -> Tensor:
    """``dy_t / dx_s``, ``(B, T, E, L, D)``, of a map from ``(R, L, D)`` to ``(R, L, E)`` that treats rows apart.

    Many rows are differentiated in one backward pass, each with a cotangent of its own.
    """
    chosen = list(positions)
    with torch.no_grad():
        width = function(x).shape[-1]
    cotangents = [(t, e) for t in chosen for e in range(width)]
    found = [_vjp(function, x, _unit(part, x.shape[1], width)) for part in parts(cotangents, rows_at_once(len(x)))]
    return torch.cat(found, dim=1).unflatten(1, (len(chosen), width))


def _unit(cotangents: list[tuple[int, int]], length: int, width: int) -> Tensor:
    out = torch.zeros(len(cotangents), length, width, dtype=torch.float64)
    for i, (t, e) in enumerate(cotangents):
        out[i, t, e] = 1
    return out


def _vjp(function: Callable[[Tensor], Tensor], x: Tensor, cotangents: Tensor) -> Tensor:
    """``J^T v`` for cotangents ``(K, L, E)``: ``(B, K, L, D)``."""
    rows = x.repeat_interleave(len(cotangents), dim=0).requires_grad_()
    with torch.enable_grad(), every_token_alone():
        y = function(rows)
    given = cotangents.repeat(len(x), 1, 1).to(y.dtype)
    (grad,) = torch.autograd.grad(y, rows, given, allow_unused=True, materialize_grads=True)
    return grad.unflatten(0, (len(x), len(cotangents)))


def probe_energies(
    function: Callable[[Tensor], Tensor], x: Tensor, positions: list[int], probes: int, generator: torch.Generator
) -> Tensor:
    """Estimates of ``|dy_t / dx_s|_F^2``, ``(B, T, L)``, from ``probes`` normal cotangents for each t."""
    with torch.no_grad():
        width = function(x).shape[-1]
    found = []
    for part in parts([t for t in positions for _ in range(probes)], rows_at_once(len(x))):
        cotangents = torch.zeros(len(part), x.shape[1], width, dtype=torch.float64)
        cotangents[torch.arange(len(part)), torch.tensor(part)] = torch.randn(
            len(part), width, generator=generator, dtype=torch.float64
        )
        found.append(_vjp(function, x, cotangents).square().sum(-1))
    return torch.cat(found, dim=1).unflatten(1, (len(positions), probes)).mean(2)


def rows_at_once(n_rows: int) -> int:
    """Copies of a batch of ``n_rows`` rows that are differentiated at once."""
    return max(1, _ROWS // n_rows)


def parts(items: list[Item], size: int) -> list[list[Item]]:
    """A list in pieces of at most ``size``."""
    return [items[i : i + size] for i in range(0, len(items), size)]
