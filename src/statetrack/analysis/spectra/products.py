"""Eigenvalues of products along a word, ``A_T ... A_1``, exact where the structure allows it.

    diagonal      sums of logs
    one-hot (PD)  cycles of the composed map: a cycle of length c whose entries multiply to w gives the c roots of z^c = w,
                  every other state an exact 0
    others        products that are rescaled at every step, block by block where there are blocks

One-hot matrices never go to a dense eigensolver: their zeros are defective, and rounding spreads a chain of n zeros over a circle
of radius ``eps^(1/n)``. Single transitions say nothing about long products of matrices that do not commute; products do. Source:
PD-SSM (arXiv 2509.22284) for the closure of one-hot matrices under products.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from statetrack.analysis.spectra.values import Spectrum
from statetrack.errors import InvalidInputError
from statetrack.structures import BlockDiagonal, ColumnOneHot, Diagonal, RowOneHot, Structure
from statetrack.structures.functional_graph import cycles


def product_spectrum(transitions: Structure) -> Spectrum:
    """Eigenvalues ``(B, H, N)`` of the product over the second batch dimension, the earliest transition rightmost.

    For matrices that are neither diagonal nor one-hot, eigenvalues below about 1e-15 of the largest are rounding.

    Args:
        transitions: batch dimensions ``(B, L, H)``, L of at least 1.

    Raises:
        InvalidInputError: other batch dimensions.

    Example:
        >>> swap = ColumnOneHot(torch.tensor([1, 0, 0]), torch.tensor([1.0, 1.0, 0.5]))
        >>> swap = swap.map_batch(lambda tensor, _: tensor.expand(1, 3, 1, 3))
        >>> values = product_spectrum(swap).eigenvalues
        >>> sorted(round(float(value), 6) for value in values.real.flatten())
        [-1.0, 0.0, 1.0]
    """
    shape = tuple(transitions.batch_shape)
    if len(shape) != 3 or 0 in shape:
        raise InvalidInputError(f"transitions need batch dimensions (B, L, H) with at least one token, got {shape}.")
    name, length = type(transitions).__name__, shape[1]
    if isinstance(transitions, Diagonal):
        logs, turned = _polar_parts(transitions.value)
        return Spectrum(logs.sum(1), turned.prod(1).angle(), length, name)
    if isinstance(transitions, ColumnOneHot | RowOneHot):
        return Spectrum(*_one_hot_product(transitions), length, name)
    if isinstance(transitions, BlockDiagonal):
        values, log_scale = _scaled_product(transitions.blocks)
        return Spectrum.from_values(values.flatten(-2), length=length, of=name, log_scale=log_scale.flatten(-2))
    values, log_scale = _scaled_product(transitions.to_dense())
    return Spectrum.from_values(values, length=length, of=name, log_scale=log_scale)


def _polar_parts(value: Tensor) -> tuple[Tensor, Tensor]:
    """Logs of the moduli, and entries of modulus 1 with the same angles; exact for real entries."""
    value = value.detach().to(torch.complex128)
    modulus = value.abs()
    unit = torch.where(modulus > 0, value / torch.where(modulus > 0, modulus, 1.0), 1.0)
    return modulus.log(), unit


def _one_hot_product(transitions: ColumnOneHot | RowOneHot) -> tuple[Tensor, Tensor]:
    logs, unit = _polar_parts(transitions.value)
    index = transitions.index.long()
    at, log, turned = index[:, 0], logs[:, 0], unit[:, 0]
    for t in range(1, index.shape[1]):
        if isinstance(transitions, ColumnOneHot):  # where the source has got to picks the next entry
            log, turned, at = log + logs[:, t].gather(-1, at), turned * unit[:, t].gather(-1, at), index[:, t].gather(-1, at)
        else:
            log = logs[:, t] + log.gather(-1, index[:, t])
            turned, at = unit[:, t] * turned.gather(-1, index[:, t]), at.gather(-1, index[:, t])
    log_modulus = torch.full_like(log, -math.inf)
    angle = torch.zeros_like(log)
    for b in range(at.shape[0]):
        for h in range(at.shape[1]):
            for cycle in cycles(at[b, h].tolist()):
                n = len(cycle)
                log_modulus[b, h, cycle] = log[b, h, cycle].sum() / n
                first = turned[b, h, cycle].prod().angle()
                angle[b, h, cycle] = (first + 2 * math.pi * torch.arange(n, dtype=torch.float64)) / n
    return log_modulus, angle


def _scaled_product(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of products of ``(B, L, H, ..., n, n)``, divided by ``exp`` of the scales; both ``(B, H, ..., n)``."""
    matrices = matrices.detach().to(torch.complex128 if matrices.is_complex() else torch.float64)
    product, scale = matrices[:, 0], torch.zeros(matrices[:, 0].shape[:-2], dtype=torch.float64)
    for t in range(matrices.shape[1]):
        product = matrices[:, t] @ product if t else product
        size = product.abs().amax((-2, -1))
        size = torch.where(size > 0, size, 1.0)
        product, scale = product / size[..., None, None], scale + size.log()
    return torch.linalg.eigvals(product), scale.unsqueeze(-1).expand(*scale.shape, product.shape[-1])
