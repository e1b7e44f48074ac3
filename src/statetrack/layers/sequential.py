"""What the nonlinear recurrent layers share: sizes, traits, and running torch's sequential cells over batches and documents."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits
from statetrack.layers.precision import at_least_float32

Hidden = tuple[Tensor, ...]


class SequentialLayer(Layer):
    """A layer with N hidden units that runs token by token.

    Args:
        d_model: E, width of input and output.
        d_state: N, number of hidden units.

    Raises:
        InvalidInputError: a size below 1.
    """

    def __init__(self, d_model: int, *, d_state: int = 64) -> None:
        super().__init__()
        if min(d_model, d_state) < 1:
            raise InvalidInputError(f"d_model and d_state must be at least 1; got {d_model}, {d_state}.")
        self.d_model, self.d_state = d_model, d_state


def nonlinear_traits(tracks: Claim, source: str) -> Traits:
    """Traits of a recurrence that is not linear in its state, where stacks are known to track what one layer does."""
    return Traits(
        structure="nonlinear (dense Jacobians)",
        spectrum="unconstrained",
        input_dependent="Jacobian, through state and input",
        one_layer=tracks,
        deeper=tracks,
        parity=True,
        cost="O(N^2), sequential",
        source=source,
        linear=False,
    )


def run_cell(cell: nn.RNNBase, x: Tensor, hidden: Hidden, cu_seqlens: Tensor | None) -> tuple[Tensor, Hidden]:
    """Hidden outputs ``(B, L, N)`` and the final hidden tensors ``(B, N)`` each, at float32 or better.

    ``hidden`` holds one tensor ``(B, N)`` (or ``(S, N)`` for ``S`` packed documents) for a plain cell, two for an LSTM.
    """
    x = x.to(cell_weights(cell)[0].dtype)
    with torch.autocast(x.device.type, enabled=False):
        if cu_seqlens is not None:
            return _run_documents(cell, x, hidden, cu_seqlens)
        if x.numel() == 0:
            return x.new_zeros(*x.shape[:2], cell.hidden_size), hidden
        return _run(cell, x, hidden)


def cell_weights(cell: nn.RNNBase) -> tuple[Tensor, Tensor, Tensor]:
    """``W (gates N, E)`` of the input, ``U (gates N, N)`` of the hidden state and the bias ``(gates N,)`` of a cell."""
    named = dict(cell.named_parameters())
    return named["weight_ih_l0"], named["weight_hh_l0"], named["bias_ih_l0"] + named["bias_hh_l0"]


def _run(cell: nn.RNNBase, x: Tensor | PackedSequence, hidden: Hidden) -> tuple[Tensor, Hidden]:
    layered = tuple(h.to(cell_weights(cell)[0].dtype).unsqueeze(0) for h in hidden)
    y, final = cell(x, layered if len(layered) > 1 else layered[0])
    final = final if isinstance(final, tuple) else (final,)
    return y, tuple(at_least_float32(h.squeeze(0)) for h in final)


def _run_documents(cell: nn.RNNBase, x: Tensor, hidden: Hidden, cu_seqlens: Tensor) -> tuple[Tensor, Hidden]:
    lengths = cu_seqlens.diff()
    filled = lengths.nonzero().squeeze(1)
    if not len(filled):
        return x.new_zeros(*x.shape[:2], cell.hidden_size), hidden
    documents = list(torch.split(x[0], lengths[filled].tolist()))
    y, final = _run(cell, pack_sequence(documents, enforce_sorted=False), tuple(h[filled] for h in hidden))
    rows = unpack_sequence(cast(PackedSequence, y))
    return torch.cat(rows).unsqueeze(0), tuple(h.index_copy(0, filled, f) for h, f in zip(hidden, final, strict=True))
