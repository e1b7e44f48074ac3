"""Lyapunov exponents: the rates at which a long product of transitions stretches or shrinks the directions of the state.

Q_t R_t = A_t Q_{t-1} ;   exponent k = mean over t of log |(R_t)_kk|
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import detached
from statetrack.errors import InvalidInputError
from statetrack.structures import Diagonal, Structure


def lyapunov_exponents(transitions: Structure) -> Tensor:
    """Exponents ``(B, H, N)`` per token over the run, largest first; ``-inf`` for directions that are lost.

    For one matrix repeated they tend to the logs of the moduli of its eigenvalues. Costs O(L N^3) per head, O(L N) for diagonals.

    Args:
        transitions: batch dimensions ``(B, L, H)``, L of at least 1.

    Raises:
        InvalidInputError: other batch dimensions.

    Example:
        >>> halves = Diagonal(torch.tensor([0.5, 1.0]).expand(1, 4, 1, 2))
        >>> [round(float(rate), 4) for rate in lyapunov_exponents(halves)[0, 0]]
        [0.0, -0.6931]
    """
    shape = tuple(transitions.batch_shape)
    if len(shape) != 3 or 0 in shape:
        raise InvalidInputError(f"transitions need batch dimensions (B, L, H) with at least one token, got {shape}.")
    transitions = detached(transitions)
    if isinstance(transitions, Diagonal):
        return transitions.value.abs().double().log().mean(1).sort(-1, descending=True).values
    n = transitions.state_size
    wide = torch.complex128 if transitions.dtype.is_complex else torch.float64
    basis, total = (
        torch.eye(n, dtype=wide).expand(shape[0], shape[2], n, n),
        torch.zeros(shape[0], shape[2], n, dtype=torch.float64),
    )
    for t in range(shape[1]):
        basis, r = torch.linalg.qr(transitions[:, t].to_dense().to(wide) @ basis)
        total = total + r.diagonal(dim1=-2, dim2=-1).abs().log()
    return (total / shape[1]).sort(-1, descending=True).values
