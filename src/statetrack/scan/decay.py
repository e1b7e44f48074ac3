"""Decay within a chunk: inner products of reads and keys, each weakened by what was forgotten between the two.

    P[t, j] = sum_k a_t[k] exp(g_{j+1}[k] + ... + g_t[k]) b_j[k]   for j <= t, else 0

Letters: M = steps of a chunk, K = channels, g = log decay, at most 0. No sum is ever a difference of two prefix sums, and every
exponent is at most 0: nothing overflows, nothing cancels, and a decay of exactly 0 (``g = -inf``) is allowed. Between channels
that decay alike the weight is one factor; otherwise a product over [t, j] is split at the middle of the smallest aligned block
that holds both, ``exp(g_{j+1..mid}) exp(g_{mid+1..t})``, so that each size of block is one matrix product.

CPUs take hundreds of times longer for subnormal numbers than for others, and products of strong decays are full of them. Weights
below the square root of the smallest normal number (2^-63 in float32), whose products would be subnormal, are taken as 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import hardshrink, pad

ALL = slice(None)


def without_tiny(x: Tensor) -> Tensor:
    """``x`` with entries below the square root of the smallest normal number set to 0."""
    return hardshrink(x, torch.finfo(x.dtype).tiny ** 0.5)


def weights(sums: Tensor) -> Tensor:
    """``exp(sums)``, likewise."""
    return sums.masked_fill(sums < math.log(torch.finfo(sums.dtype).tiny) / 2, -torch.inf).exp()


class Decay(ABC):
    """The decays of a batch of chunks. Tensors are ``(..., M, 1)`` or, for a decay of its own per channel, ``(..., M, K)``."""

    @abstractmethod
    def products(self, reads: Tensor, keys: Tensor, rows: slice = ALL) -> Tensor:
        """``P (..., R, M)`` for reads ``(..., R, K)`` that stand at the given rows, and keys ``(..., M, K)``."""

    @property
    @abstractmethod
    def since_start(self) -> Tensor:
        """What is left after each step of what was there before the first."""

    @property
    @abstractmethod
    def until_end(self) -> Tensor:
        """What is left after the last step of what was written at each."""


class NoDecay(Decay):
    """Nothing is forgotten."""

    def __init__(self, like: Tensor) -> None:
        self._one = like.new_ones(*like.shape[:-1], 1)

    def products(self, reads: Tensor, keys: Tensor, rows: slice = ALL) -> Tensor:
        seen = torch.ones(keys.shape[-2], keys.shape[-2], dtype=torch.bool, device=keys.device).tril()
        return (reads @ keys.mT) * seen[rows]

    @property
    def since_start(self) -> Tensor:
        return self._one

    @property
    def until_end(self) -> Tensor:
        return self._one


class HeadDecay(Decay):
    """One decay for all channels: ``log_decay (..., M)``."""

    def __init__(self, log_decay: Tensor) -> None:
        steps = log_decay.shape[-1]
        ones = torch.ones(steps, steps, dtype=torch.bool, device=log_decay.device)
        sums = log_decay.unsqueeze(-1).expand(*log_decay.shape, steps).masked_fill(~ones.tril(-1), 0).cumsum(-2)
        self._between = weights(sums.masked_fill(~ones.tril(), -torch.inf))
        self._since_start = weights(log_decay.cumsum(-1)).unsqueeze(-1)

    def products(self, reads: Tensor, keys: Tensor, rows: slice = ALL) -> Tensor:
        return (reads @ keys.mT) * self._between[..., rows, :]

    @property
    def since_start(self) -> Tensor:
        return self._since_start

    @property
    def until_end(self) -> Tensor:
        return self._between[..., -1:, :].mT


class ChannelDecay(Decay):
    """A decay of its own for every channel: ``log_decay (..., M, K)``."""

    def __init__(self, log_decay: Tensor) -> None:
        self._steps = log_decay.shape[-2]
        self._missing = (1 << (self._steps - 1).bit_length()) - self._steps
        self._since_start = weights(log_decay.cumsum(-2))
        self._until_end = weights(_sums_behind(log_decay))
        self._halves = list(self._blocks(pad(log_decay, (0, 0, 0, self._missing))))

    @staticmethod
    def _blocks(log_decay: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each size of block: decay until the end of its first half, and since the beginning of its second half."""
        size, steps = 1, log_decay.shape[-2]
        while size < steps:
            first, second = log_decay.unflatten(-2, (-1, 2, size)).unbind(-3)
            yield weights(_sums_behind(first)), weights(second.cumsum(-2))
            size *= 2

    def products(self, reads: Tensor, keys: Tensor, rows: slice = ALL) -> Tensor:
        everywhere = torch.zeros_like(keys).slice_scatter(reads, -2, rows.start, rows.stop, rows.step or 1)
        reads, keys = (pad(t, (0, 0, 0, self._missing)) for t in (everywhere, keys))
        done = (reads * keys).sum(-1)[..., None, None]
        for size, (until, since) in ((until.shape[-2], (until, since)) for until, since in self._halves):
            early = keys.unflatten(-2, (-1, 2, size))[..., 0, :, :] * until
            late = reads.unflatten(-2, (-1, 2, size))[..., 1, :, :] * since
            first, second = done.unflatten(-3, (-1, 2)).unbind(-3)
            done = torch.cat([pad(first, (0, size)), torch.cat([late @ early.mT, second], dim=-1)], dim=-2)
        return done.squeeze(-3)[..., : self._steps, : self._steps][..., rows, :]

    @property
    def since_start(self) -> Tensor:
        return self._since_start

    @property
    def until_end(self) -> Tensor:
        return self._until_end


def _sums_behind(g: Tensor) -> Tensor:
    """For each step the sum over all later ones, along the second to last dimension."""
    return pad(g[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2)
