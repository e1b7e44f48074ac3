"""Which tokens a program works on: every sequence is cut into chunks, and no chunk crosses a border.

Letters: S = sequences (rows of a batch, or packed documents), T = tokens of all of them, C = tokens per chunk, M = chunks.
The chunks of sequence ``s`` are numbered ``firsts[s] .. firsts[s + 1]``. Documents have lengths that only the device knows, so
that ``M`` is the bound ``T // C + S`` and the chunks behind the last are empty; rows need no table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spans:
    """Attributes:
    n_chunks: M.
    chunk: C.
    single: no sequence has more than one chunk.
    length: tokens of every row; 0 for documents.
    offsets: ``(S + 1,)`` int64 borders of documents, or None for rows.
    firsts: ``(S + 1,)`` int64, or None.
    owners: ``(M,)`` int64, the document of every chunk, or None.
    """

    n_chunks: int
    chunk: int
    single: bool
    length: int
    offsets: Tensor | None = None
    firsts: Tensor | None = None
    owners: Tensor | None = None

    def arguments(self) -> dict[str, Tensor | int | None]:
        """What ``tokens.span`` and ``tokens.chunks_of`` take."""
        return {
            "chunk": self.chunk,
            "length": self.length,
            "per_row": -(-self.length // self.chunk),
            "offsets": self.offsets,
            "firsts": self.firsts,
            "owners": self.owners,
        }


def chunk_count(n_sequences: int, n_tokens: int, chunk: int, packed: bool) -> tuple[int, bool]:
    """M, and whether no sequence has more than one chunk, from sizes alone."""
    if packed:
        return (n_tokens // chunk + n_sequences if n_tokens else 0), n_tokens <= chunk
    length = n_tokens // n_sequences if n_sequences else 0
    return n_sequences * -(-length // chunk), length <= chunk


def spans(n_sequences: int, n_tokens: int, chunk: int, offsets: Tensor | None) -> Spans:
    """Cut ``n_sequences`` equal rows, or the documents at ``offsets``; nothing waits for the device."""
    n_chunks, single = chunk_count(n_sequences, n_tokens, chunk, offsets is not None)
    if offsets is None:
        return Spans(n_chunks, chunk, single, n_tokens // n_sequences if n_sequences else 0)
    counts = (offsets.diff() + (chunk - 1)) // chunk
    firsts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    place = torch.arange(n_chunks, device=offsets.device)
    owners = torch.searchsorted(firsts[1:], place, right=True).clamp_(max=max(n_sequences - 1, 0))
    return Spans(n_chunks, chunk, single, 0, offsets, firsts, owners)
