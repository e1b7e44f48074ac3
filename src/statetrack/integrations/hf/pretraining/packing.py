"""Documents packed into rows of one length, without padding and without a leak from one into the next.

A row is cut where a document begins: ``cu_seqlens`` says so to the layers, and no token is predicted from another document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from statetrack.integrations.hf.pretraining.corpus import Documents, Ids

IGNORED = -100


class Packed(NamedTuple):
    """Attributes:
    input_ids: ``(1, T)`` int64.
    labels: ``(1, T)`` int64 as transformers has them, predicted from the position before; -100 at the start of a piece.
    cu_seqlens: ``(S + 1,)`` int64, where pieces begin.
    """

    input_ids: Tensor
    labels: Tensor
    cu_seqlens: Tensor

    @property
    def n_labels(self) -> int:
        """Number of tokens that are predicted."""
        return int((self.labels != IGNORED).sum())


class Packer:
    """Rows of an endless sequence of documents, from any position on.

    Args:
        documents: where they come from.
        context: tokens of a row.
        number: document to begin with.
        offset: token of it to begin with.

    Attributes:
        number: document that the next row begins in.
        offset: token of it.
    """

    def __init__(self, documents: Documents, context: int, number: int = 0, offset: int = 0) -> None:
        self.context, self.number, self.offset = context, number, offset
        self._documents: Iterator[Ids] = documents.start_at(number)
        self._current: Ids = next(self._documents)

    def rows(self, n: int) -> tuple[Tensor, Tensor]:
        """``(n, context)`` ids, and whether a document begins there."""
        ids, starts = np.empty(n * self.context, dtype=np.int64), np.zeros(n * self.context, dtype=bool)
        filled = 0
        while filled < len(ids):
            if self.offset == len(self._current):
                self._current, self.number, self.offset = next(self._documents), self.number + 1, 0
            part = self._current[self.offset : self.offset + len(ids) - filled]
            ids[filled : filled + len(part)] = part
            starts[filled] = self.offset == 0
            filled, self.offset = filled + len(part), self.offset + len(part)
        return torch.from_numpy(ids).view(n, self.context), torch.from_numpy(starts).view(n, self.context)


def packed(ids: Tensor, starts: Tensor) -> Packed:
    """Rows ``(R, context)`` one after another; a piece begins with each row and each document.

    >>> rows = torch.tensor([[5, 6, 0, 7], [8, 9, 4, 3]]), torch.tensor([[False, False, True, False], [False] * 4])
    >>> batch = packed(*rows)
    >>> batch.cu_seqlens.tolist(), batch.labels.tolist()
    ([0, 2, 4, 8], [[-100, 6, -100, 7, -100, 9, 4, 3]])
    """
    first = starts.clone()
    first[:, 0] = True
    flat, begins = ids.reshape(1, -1), first.reshape(-1)
    offsets = torch.cat([begins.nonzero().squeeze(1), torch.tensor([flat.shape[1]])])
    return Packed(flat, flat.masked_fill(begins, IGNORED), offsets)


def pieces(document: Ids, context: int) -> list[Ids]:
    """A document in pieces that overlap by one token, so that each token but the first is predicted exactly once.

    >>> [piece.tolist() for piece in pieces(np.arange(6, dtype=np.int32), 4)]
    [[0, 1, 2, 3], [3, 4, 5]]
    """
    return [document[i : i + context] for i in range(0, max(1, len(document) - 1), context - 1)]


def packed_pieces(parts: list[Ids]) -> Packed:
    """Pieces of any lengths, one after another."""
    ends = np.cumsum([0, *map(len, parts)])
    ids = torch.from_numpy(np.concatenate(parts).astype(np.int64))[None]
    labels = ids.clone()
    labels[0, ends[:-1]] = IGNORED
    return Packed(ids, labels, torch.from_numpy(ends.astype(np.int64)))
