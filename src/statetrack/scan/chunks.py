"""Cutting sequences and packed documents into chunks of equal size, for operations that run chunk by chunk.

Letters: B = rows, L = tokens, S = sequences (rows, or documents packed into one row), C = tokens per chunk, M = C times the steps
per token, N = all chunks, D = chunks of the longest sequence. Chunks never cross a border; what they hold behind the end of a
sequence is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Chunks:
    """The cut of a batch of rows, or of one row of packed documents.

    Attributes:
        size: C.
        depth: D.
        shape: ``(B, L)``.
        place: ``(L,)`` where each token of packed documents goes in the line of all chunks; None for plain rows.
        owner: ``(N,)`` the document of each chunk, and None for plain rows.
        rank: ``(N,)`` the number of each chunk within its document, and None for plain rows.
        slot: ``(S, D)`` the chunk at each rank of each document, and None for plain rows.
        filled: ``(S, D)`` whether there is one.
    """

    size: int
    depth: int
    shape: tuple[int, int]
    place: Tensor | None = None
    owner: Tensor | None = None
    rank: Tensor | None = None
    slot: Tensor | None = None
    filled: Tensor | None = None

    @classmethod
    def of(cls, rows: int, length: int, cu_seqlens: Tensor | None, largest: int) -> Self:
        """Chunks of at most ``largest`` tokens, of the smallest size that keeps their number."""
        if cu_seqlens is None:
            depth = -(-length // largest)
            return cls(-(-length // max(depth, 1)), depth, (rows, length))
        lengths = cu_seqlens.diff()
        longest = int(lengths.max()) if len(lengths) else 0
        depth = -(-longest // largest)
        size = max(-(-longest // max(depth, 1)), 1)
        counts = -(-lengths // size)
        first = counts.cumsum(0) - counts
        tokens = torch.arange(length, device=cu_seqlens.device)
        document = torch.searchsorted(cu_seqlens[1:].contiguous(), tokens, right=True)
        owner = torch.repeat_interleave(counts)
        each = torch.arange(depth, device=cu_seqlens.device)
        filled = each < counts.unsqueeze(1)
        return cls(
            size,
            depth,
            (rows, length),
            place=first[document] * size + tokens - cu_seqlens[document],
            owner=owner,
            rank=torch.arange(len(owner), device=owner.device) - first[owner],
            slot=torch.where(filled, first.unsqueeze(1) + each, 0),
            filled=filled,
        )

    def split(self, x: Tensor, steps: int = 1) -> Tensor:
        """``(B, L * steps, H, ...)`` as ``(N, H, M, ...)``."""
        x = x.unflatten(1, (self.shape[1], steps))
        if self.place is None:
            missing = self.depth * self.size - self.shape[1]
            x = pad(x, (*(0, 0) * (x.ndim - 2), 0, missing)) if missing else x
        else:
            assert self.owner is not None
            line = x.new_zeros(1, len(self.owner) * self.size, *x.shape[2:])
            x = line.index_copy(1, self.place, x)
        chunks = x.reshape(-1 if x.numel() else self._count(), self.size * steps, *x.shape[3:])
        return chunks.transpose(1, 2)

    def join(self, y: Tensor) -> Tensor:
        """``(N, H, C, ...)`` as ``(B, L, H, ...)``: the inverse of ``split``."""
        line = y.transpose(1, 2).reshape(self.shape[0], -1 if y.numel() else self._count() * self.size, y.shape[1], *y.shape[3:])
        return line[:, : self.shape[1]] if self.place is None else line[:, self.place]

    def by_sequence(self, chunks: Tensor) -> Tensor:
        """One thing per chunk ``(N, ...)`` as ``(S, D, ...)``; what stands where no chunk is has no meaning."""
        return chunks.unflatten(0, (self.shape[0], self.depth)) if self.slot is None else chunks[self.slot]

    def by_chunk(self, sequences: Tensor) -> Tensor:
        """The inverse of ``by_sequence``."""
        return sequences.flatten(0, 1) if self.owner is None else sequences[self.owner, self.rank]

    def keep(self, rank: int, new: Tensor, old: Tensor) -> Tensor:
        """States ``(S, ...)`` after chunk ``rank``: ``new`` where the sequence has that chunk."""
        if self.filled is None:
            return new
        return torch.where(self.filled[:, rank].view(-1, *(1,) * (new.ndim - 1)), new, old)

    def _count(self) -> int:
        return self.shape[0] * self.depth if self.owner is None else len(self.owner)
