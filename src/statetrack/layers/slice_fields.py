"""The vector fields of SLiCE: from the input to ``I + A(x)``, for every structure of A that the paper compares.

    A(x) = dt sum_i [1; x]_i A^i
    diagonal            A^i diagonal
    block-diagonal      A^i of N / b blocks, b x b each (b = N is the dense layer)
    diagonal-dense      N - b diagonal entries, then one dense b x b block
    dplr                A(x) = diag(d) + U V^T ; d, U and V are each linear in dt [1; x], so that U V^T carries dt^2
    walsh-hadamard      A(x) = H diag(a) / sqrt(N) ; a is linear in dt [1; x] with coefficients tanh(.) ; H Hadamard's matrix

Letters: E = ``d_model``, N = ``d_state``, b = ``block_size``, r = ``rank``, dt = ``time_step``. Source: Structured linear CDEs
(arXiv 2505.17761).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.float32_linear import Float32Linear, TanhLinear
from statetrack.structures import BlockDiagonal, Dense, Diagonal, DiagonalPlusLowRank, Structure

Kind = Literal["diagonal", "block-diagonal", "diagonal-dense", "dplr", "walsh-hadamard"]


def hadamard(size: int) -> Tensor:
    """Hadamard's matrix of a power of two: ``(size, size)``, entries 1 and -1."""
    matrix, two = torch.ones(1, 1), torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    while len(matrix) < size:
        matrix = torch.kron(matrix, two)
    return matrix


class VectorField(nn.Module):
    """``I + A(x)`` from ``x (B, L, E)``, as structures over consecutive parts of the state.

    Args:
        d_model: E.
        d_state: N.
        kind: structure of A.
        block_size: b.
        rank: r.
        time_step: dt.
        init_std: scale of the normal start.

    Raises:
        InvalidInputError: a block size that does not fit the state, or for Hadamard's matrix a size that is no power of two.
    """

    hadamard: Tensor

    def __init__(
        self, d_model: int, d_state: int, *, kind: Kind, block_size: int, rank: int, time_step: float, init_std: float
    ) -> None:
        super().__init__()
        self.kind, self.d_state, self.block_size, self.time_step = kind, d_state, block_size, time_step
        checked("kind", kind, Kind)
        if kind == "block-diagonal" and d_state % block_size:
            raise InvalidInputError(f"block_size must divide d_state; got {block_size} and {d_state}.")
        if kind == "diagonal-dense" and d_state <= block_size:
            raise InvalidInputError(f"block_size must be smaller than d_state; got {block_size} and {d_state}.")
        if kind == "walsh-hadamard":
            if d_state & (d_state - 1):
                raise InvalidInputError(f"kind='walsh-hadamard' needs a d_state that is a power of two; got {d_state}.")
            self.register_buffer("hadamard", hadamard(d_state), persistent=False)
        self.sizes, stds = zip(*self._parts(rank), strict=True)
        self.linear = (TanhLinear if kind == "walsh-hadamard" else Float32Linear)(d_model, sum(self.sizes))
        std = torch.tensor([std for size, std in zip(self.sizes, stds, strict=True) for _ in range(size)]) * init_std
        with torch.no_grad():
            self.linear.weight.normal_().mul_(std.unsqueeze(1))
            self.linear.bias.normal_().mul_(std)

    def _parts(self, rank: int) -> list[tuple[int, float]]:
        """How many coefficients of A there are of each sort, and their standard deviation at the start."""
        n, b = self.d_state, self.block_size
        if self.kind == "block-diagonal":
            return [(n * b, b**-0.5)]
        if self.kind == "diagonal-dense":
            return [(n - b, 1.0), (b * b, b**-0.5)]
        if self.kind == "dplr":
            return [(n, 1.0), (n * rank, rank**-0.5), (n * rank, rank**-0.5)]
        return [(n, 1.0)]

    def forward(self, x: Tensor) -> list[Structure]:
        """Structures with batch dimensions ``(B, L, 1)`` whose state sizes add up to N."""
        parts = (self.time_step * self.linear(x)).unsqueeze(2).split(self.sizes, dim=-1)
        b = self.block_size
        if self.kind == "block-diagonal":
            return [BlockDiagonal(_plus_identity(parts[0].unflatten(-1, (-1, b, b))))]
        if self.kind == "diagonal-dense":
            return [Diagonal(1 + parts[0]), Dense(_plus_identity(parts[1].unflatten(-1, (b, b))))]
        if self.kind == "dplr":
            left, right = (part.unflatten(-1, (self.d_state, -1)) for part in parts[1:])
            return [DiagonalPlusLowRank(1 + parts[0], left, right)]
        if self.kind == "walsh-hadamard":
            scaled = parts[0].unsqueeze(-2) * self.hadamard.to(parts[0].dtype) / math.sqrt(self.d_state)
            return [Dense(_plus_identity(scaled))]
        return [Diagonal(1 + parts[0])]


def _plus_identity(matrix: Tensor) -> Tensor:
    return matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
