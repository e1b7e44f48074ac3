"""SLiCE: structured linear controlled differential equations.

    h_t = (I + A(x_t)) h_{t-1}  +  [t = 0] (W x_t + c) ;   h_{-1} = 0 ;   A(x) = dt sum_i [1; x]_i A^i ;   y_t = V h_t + a

Letters: E = ``d_model``, N = ``d_state``, dt = ``time_step``. The first token of a sequence sets the state; the input of later
ones enters through A alone. A is free: eigenvalues may exceed 1. What the published code adds around it (a guard that keeps
entries below 1e11; skip connections, a tanh layer and a norm in its blocks) is left to the stack. Source: Structured linear CDEs
(arXiv 2505.17761).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.layers.slice_fields import Kind, VectorField
from statetrack.scan import scan
from statetrack.scan.backends import PlainBackend
from statetrack.structures import Dense, Structure


class SLiCEState(NamedTuple):
    """Attributes:
    h: ``(B, 1, N)``.
    started: ``(B,)`` bool, whether the first token has been read.
    """

    h: Tensor
    started: Tensor


@register("slice")
class SLiCE(Layer):
    """SLiCE layer with a linear readout.

    Args:
        d_model: E, width of input and output.
        d_state: N.
        kind: structure of A: ``"diagonal"``, ``"block-diagonal"``, ``"diagonal-dense"``, ``"dplr"`` or ``"walsh-hadamard"``
            (which needs a power of two as N, and runs as a dense layer).
        block_size: size of the blocks, or of the dense block of ``"diagonal-dense"`` (16 in the paper); blocks of size N make it
            the dense layer.
        rank: of the low-rank part of ``"dplr"``.
        time_step: dt; the paper takes one over the training length.
        init_std: scale of the normal start.
        backend: of the scan; diagonal parts take their kernel under ``"auto"``.

    Raises:
        InvalidInputError: a size, scale or time step that is not positive, an unknown ``kind``, or sizes that do not fit it.

    Example:
        >>> layer = SLiCE(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape, state.started
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]), tensor([True, True]))
    """

    traits = Traits(
        structure="block-diagonal (or diagonal, diagonal and one dense block, diagonal plus low rank, Hadamard)",
        spectrum="unconstrained, complex pairs within a block",
        input_dependent="all of it",
        one_layer=Claim("at least", "every automaton of b states with blocks of size b; C_2^m when diagonal", "derived"),
        deeper=Claim("at least", "every automaton of b states with blocks of size b; C_2^m when diagonal", "derived"),
        parity=True,
        cost="O(N b) per step (N b^2 by tree); O(N + b^2), O(N r) and O(N^2) for the mixed, low-rank and Hadamard kinds",
        source="Structured linear CDEs (arXiv 2505.17761)",
    )

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        kind: Kind = "block-diagonal",
        block_size: int = 4,
        rank: int = 4,
        time_step: float = 1 / 40,
        init_std: float = 0.5,
        backend: PlainBackend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, block_size, rank) < 1 or not time_step > 0 or not init_std > 0:
            raise InvalidInputError(
                "d_model, d_state, block_size and rank must be at least 1, time_step and init_std positive; got "
                f"{d_model}, {d_state}, {block_size}, {rank}, {time_step}, {init_std}."
            )
        self.d_model, self.d_state, self.backend = d_model, d_state, backend
        self.field = VectorField(
            d_model, d_state, kind=kind, block_size=block_size, rank=rank, time_step=time_step, init_std=init_std
        )
        self.start = nn.Linear(d_model, d_state)
        nn.init.normal_(self.start.weight, std=init_std)
        nn.init.normal_(self.start.bias, std=init_std)
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> SLiCEState:
        h = zero_state(self, batch_size, 1, self.d_state)
        return SLiCEState(h, torch.zeros(batch_size, dtype=torch.bool, device=h.device))

    def transitions(self, x: Tensor, state: SLiCEState | None = None) -> Structure:
        """``I + A(x)``; as dense matrices where it has parts of different structure."""
        parts = self.field(x)
        if len(parts) == 1:
            return parts[0]
        rows, sizes = [], [part.state_size for part in parts]
        for i, part in enumerate(parts):
            rows.append(pad(part.to_dense(), (sum(sizes[:i]), sum(sizes[i + 1 :]))))
        return Dense(torch.cat(rows, dim=-2))

    def _forward(self, x: Tensor, state: SLiCEState, cu_seqlens: Tensor | None) -> tuple[Tensor, SLiCEState]:
        parts = self.field(x)
        sizes = [part.state_size for part in parts]
        inputs, started = self._first_tokens(x, state, cu_seqlens)
        runs = [
            scan(part, b, h, cu_seqlens=cu_seqlens, backend=self.backend)
            for part, b, h in zip(parts, inputs.split(sizes, -1), state.h.split(sizes, -1), strict=True)
        ]
        states = torch.cat([run.states for run in runs], dim=-1)
        final = torch.cat([run.final for run in runs], dim=-1)
        return self.out(states.squeeze(2).to(x.dtype)), SLiCEState(final, started)

    def _first_tokens(self, x: Tensor, state: SLiCEState, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        """``W x + c`` at the first token of every sequence, zero elsewhere, ``(B, L, 1, N)``; and which sequences have begun."""
        length = x.shape[1]
        if cu_seqlens is None:
            first = self._set(x[:, :1], state.started)
            return pad(first, (0, 0, 0, 0, 0, max(length - 1, 0))), state.started | (length > 0)
        filled = cu_seqlens[1:] > cu_seqlens[:-1]
        place = cu_seqlens[:-1][filled]
        first = self._set(x[0, place].unsqueeze(1), state.started[filled])
        inputs = first.new_zeros(1, length, 1, self.d_state).index_copy(1, place, first.transpose(0, 1))
        return inputs, state.started | filled

    def _set(self, x: Tensor, started: Tensor) -> Tensor:
        """``(rows, 0 or 1, 1, N)``."""
        return at_least_float32(self.start(x)).unsqueeze(2) * ~started[:, None, None, None]
