"""The oracle of all scans: dense matrices built by loops, one token after another, in float64 or complex128."""

from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, RowOneHot


def dense(structure):
    """``(..., N, N)`` without using the structure's own methods."""
    if isinstance(structure, Dense):
        return structure.matrix
    if isinstance(structure, BlockDiagonal):
        blocks = structure.blocks
        n_blocks, size = blocks.shape[-3], blocks.shape[-1]
        out = blocks.new_zeros(*blocks.shape[:-3], n_blocks * size, n_blocks * size)
        for j in range(n_blocks):
            out[..., j * size : (j + 1) * size, j * size : (j + 1) * size] = blocks[..., j, :, :]
        return out
    value, n = structure.value, structure.value.shape[-1]
    row = col = torch.arange(n).expand(value.shape)
    if isinstance(structure, ColumnOneHot):
        row = structure.index.long()
    elif isinstance(structure, RowOneHot):
        col = structure.index.long()
    place = torch.nn.functional.one_hot(row, n).unsqueeze(-1) * torch.nn.functional.one_hot(col, n).unsqueeze(-2)
    return (place * value[..., None, None]).sum(-3)


def loop(matrices, inputs, initial, offsets=None):
    """States ``(B, L, H, N)`` and final states from ``matrices (B, L, H, N, N)``."""
    if offsets is not None:
        parts = [
            loop(matrices[:, a:b], None if inputs is None else inputs[:, a:b], initial[s : s + 1])
            for s, (a, b) in enumerate(pairwise(offsets))
        ]
        return torch.cat([y for y, _ in parts], 1), torch.cat([f for _, f in parts])
    h, states = initial, []
    for t in range(matrices.shape[1]):
        h = (matrices[:, t] @ h.unsqueeze(-1)).squeeze(-1)
        h = h if inputs is None else h + inputs[:, t]
        states.append(h)
    return (torch.stack(states, 1) if states else initial.new_zeros(len(initial), 0, *initial.shape[1:])), h


def example(structure, batch, n, dtype, seed=0):
    """Random transitions of modulus around 1, inputs and an initial state for every row."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=dtype)

    index = torch.randint(n, (*batch, n), generator=g)
    transitions = {
        Diagonal: lambda: Diagonal(normal(*batch, n)),
        ColumnOneHot: lambda: ColumnOneHot(index, normal(*batch, n)),
        RowOneHot: lambda: RowOneHot(index, normal(*batch, n)),
        Dense: lambda: Dense(normal(*batch, n, n) / n**0.5),
        BlockDiagonal: lambda: BlockDiagonal(normal(*batch, n // 2, 2, 2) / 2),
    }[structure]()
    return transitions, normal(*batch, n), normal(batch[0], batch[2], n)


def leaf(structure):
    """The same structure with entries that require gradients."""
    name = next(f.name for f in fields(structure) if getattr(structure, f.name) is structure.values)
    return replace(structure, **{name: structure.values.detach().clone().requires_grad_()})


@pytest.fixture
def oracle():
    return SimpleNamespace(dense=dense, loop=loop, example=example, leaf=leaf)
