"""Gradients of a loss on whole series that are too long to hold the states of all their tokens.

A series is cut into chunks, with a carry in between (``Carry``). ``"full"`` holds everything; the others hold one chunk at a time
and run it twice:

    recompute   autograd holds the carries and runs each chunk again on the way back
    carries     a first pass keeps the carry before each chunk; then, from the last chunk to the first, each is run again with
                gradients, and the gradient of the carry that it entered with is handed to the chunk before: exact
    truncated   as carries, but what is handed back stops at the states, so that no gradient crosses the border of a chunk

Letters: B = rows, L = tokens, F = features, O = outputs, K = ``chunk_size``. Beside what ``"full"`` takes for K tokens, memory
is one carry per chunk. With truncation the gradient of the pooled features is still exact; with mean pooling every chunk gets
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.timeseries.network import Carry, SeriesNet

Gradient = Literal["full", "recompute", "carries", "truncated"]

Loss = Callable[[Tensor], Tensor]
"""From scores ``(B, O)`` to a number."""


class Chunk(NamedTuple):
    """Attributes:
    index: from 0.
    x: ``(B, k, F)``.
    mask: ``(B, k)``, None where no row has ended.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    x: Tensor
    mask: Tensor | None


def chunks(x: Tensor, lengths: Tensor, chunk_size: int) -> Iterator[Chunk]:
    """``x (B, L, F)``, of which ``lengths (B,)`` tokens are there, in pieces of at most ``chunk_size`` tokens."""
    shortest = int(lengths.min())
    for index, start in enumerate(range(0, x.shape[1], chunk_size)):
        piece = x[:, start : start + chunk_size]
        places = torch.arange(start, start + piece.shape[1], device=x.device)
        yield Chunk(index, piece, None if start + piece.shape[1] <= shortest else places < lengths.unsqueeze(1))


def scores_of(net: SeriesNet, x: Tensor, lengths: Tensor, chunk_size: int) -> Tensor:
    """Scores ``(B, O)`` without gradients, a chunk at a time."""
    with torch.no_grad():
        carry = net.start(len(x))
        for chunk in chunks(x, lengths, chunk_size):
            carry = net.advance(chunk.x, carry, chunk.mask)
        return net.read(carry)


def backpropagate(
    net: SeriesNet,
    x: Tensor,
    lengths: Tensor,
    loss: Loss,
    *,
    gradient: Gradient = "carries",
    chunk_size: int = 4096,
    dropout: torch.Generator | None = None,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Add the gradients of a loss to ``grad`` of the parameters.

    Args:
        net: the network.
        x: ``(B, L, F)``; what lies behind the end of a row must be finite.
        lengths: ``(B,)`` tokens of each row, at least 1.
        loss: from scores to a number.
        gradient: how, see the top of this file.
        chunk_size: K.
        dropout: generator of the network's dropout; it is set anew for every chunk, so that one that runs twice drops the same.
        seed: what it is set to.

    Returns:
        The loss and the scores ``(B, O)``, detached.

    Raises:
        InvalidInputError: an unknown ``gradient``, or a chunk size below 1.
    """
    checked("gradient", gradient, Gradient)
    if chunk_size < 1:
        raise InvalidInputError(f"chunk_size must be at least 1; got {chunk_size}.")
    size = x.shape[1] if gradient == "full" else chunk_size
    pieces = list(chunks(x, lengths, size))

    def advance(chunk: Chunk, carry: Carry) -> Carry:
        if dropout is not None:
            dropout.manual_seed(seed + chunk.index)
        return net.advance(chunk.x, carry, chunk.mask)

    if len(pieces) == 1 or gradient == "recompute":
        return _by_autograd(net, pieces, advance, loss)
    return _by_carries(net, pieces, advance, loss, exact=gradient == "carries")


Advance = Callable[[Chunk, Carry], Carry]


def _by_autograd(net: SeriesNet, pieces: list[Chunk], advance: Advance, loss: Loss) -> tuple[Tensor, Tensor]:
    carry = net.start(len(pieces[0].x))
    for piece in pieces:
        carry = advance(piece, carry) if len(pieces) == 1 else _recomputed(advance, piece, carry)
    scores = net.read(carry)
    value = loss(scores)
    value.backward()
    return value.detach(), scores.detach()


def _recomputed(advance: Advance, piece: Chunk, carry: Carry) -> Carry:
    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(advance(piece, carry.filled(list(tensors))).tensors())

    return carry.filled(list(checkpoint(run, *carry.tensors(), use_reentrant=False, preserve_rng_state=False)))


def _by_carries(net: SeriesNet, pieces: list[Chunk], advance: Advance, loss: Loss, *, exact: bool) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        carry, entered = net.start(len(pieces[0].x)), []
        for piece in pieces:
            entered.append(carry)
            carry = advance(piece, carry)
    end = _leaves(carry)
    scores = net.read(end)
    value = loss(scores)
    value.backward()
    handed = [tensor.grad for tensor in end.tensors()]
    for piece, before in zip(reversed(pieces), reversed(entered), strict=True):
        # The first chunk begins at the state before the first token, which may have parameters of its own.
        begin = _leaves(before) if piece.index else net.start(len(piece.x))
        after = advance(piece, begin)
        if not exact:
            handed = [*(None for state in after.states for _ in state), *handed[-2:]]
        pairs = [(tensor, grad) for tensor, grad in zip(after.tensors(), handed, strict=True) if grad is not None]
        pairs = [(tensor, grad) for tensor, grad in pairs if tensor.requires_grad]
        torch.autograd.backward([tensor for tensor, _ in pairs], [grad for _, grad in pairs])
        if piece.index:
            handed = [tensor.grad for tensor in begin.tensors()]
    return value.detach(), scores.detach()


def _leaves(carry: Carry) -> Carry:
    """The same numbers, each a place where a gradient gathers."""
    tensors = [tensor.detach() for tensor in carry.tensors()]
    return carry.filled([t.requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in tensors])
