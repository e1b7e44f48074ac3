"""What a routed scan takes, from the projections of a layer's input in one pass, where a kernel for that runs.

The published cost of PD-SSM is in making ``P`` and ``D``, not in the scan (arXiv 2509.22284): a chain of operations per element,
each of which reads and writes all of them.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from statetrack.scan.backends import Backend
from statetrack.scan.triton.availability import device_obstacle


class Generated(NamedTuple):
    """Attributes:
    value: ``(B, L, H, N)`` diagonal, real or complex.
    inputs: ``(B, L, H, N)`` additive input, or None.
    route: ``(B, L, H)`` int64.
    routing: ``(B, L, H, K)`` one-hot form of the routes, through which their credit flows, or None.
    """

    value: Tensor
    inputs: Tensor | None
    route: Tensor
    routing: Tensor | None


def fused_generator_runs(backend: Backend, device: str) -> bool:
    """Whether the kernel can run where the scan after it runs on the triton backend."""
    wanted = backend == "triton" or (backend == "auto" and device == "cuda")
    return wanted and device_obstacle(device) is None


def fused_generator(
    decay: Tensor | None,
    rate: Tensor | None,
    phase: Tensor | None,
    drive: Tensor | None,
    logits: Tensor,
    *,
    rising: bool,
    turns: bool,
    temperature: Tensor,
    credited: bool,
) -> Generated:
    """Diagonal, additive input and routes.

    Args:
        decay: ``(B, L, H N)`` logits of the modulus; None: the modulus is 1.
        rate: ``(H N,)``, or None for 1, as ``polar_diagonal`` takes it.
        phase: ``(B, L, H N)`` logits of the phase; None: a real diagonal.
        drive: ``(B, L, 2 H N)`` real parts and imaginary parts, or for a real diagonal ``(B, L, H N)``; None: no additive input.
        logits: ``(B, L, H, K)`` of the router.
        rising: the modulus rises with its logits.
        turns: phases are ``2 pi sigmoid`` of their logits.
        temperature: ``()``, of the softmax that stands for the routes in the backward pass.
        credited: whether routes get credit.
    """
    from statetrack.scan.triton.generator import triton_generate  # needs triton, which is optional

    rows, length, n_heads, _ = logits.shape

    def flat(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.flatten(0, 1)

    def by_row(x: Tensor) -> Tensor:
        return x.unflatten(0, (rows, length))

    given = flat(decay), rate, flat(phase), flat(drive), logits.flatten(0, 1)
    value, inputs, route, routing = triton_generate(*given, rising, turns, temperature, credited)
    heads = (n_heads, value.shape[-1] // n_heads)
    return Generated(
        by_row(value).unflatten(-1, heads),
        None if drive is None else by_row(inputs).unflatten(-1, heads),
        by_row(route),
        by_row(routing) if credited else None,
    )
