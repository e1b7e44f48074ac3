"""Shift registers: a fixed one-hot transition moves every cell to the next place, and the input enters at place 0.

    v_t = W_in u_t ;   h_t[c] = S h_{t-1}[c] + e_0 v_t[c] ;   y_t[c] = sum_n C[c,n] h_t[c,n] ;   out = W_out y_t + D * u_t

Letters: E = ``d_model`` = number of registers, N = ``d_state`` cells each; c counts registers, n cells. S has a 1 from each cell
to the next; ``wrap`` says what becomes of the last one. An experimental control: nothing here depends on the input, and no
benefit is published for it. Source of the layer with ``wrap="drop"``: the shift SSM of H3 (arXiv 2212.14052).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.scan import Backend, scan
from statetrack.structures import ColumnOneHot, RoutedOneHot

Wrap = Literal["drop", "cyclic", "hold"]


class ShiftState(NamedTuple):
    """Attributes:
    h: ``(B, E, N)``, the cells of every register.
    """

    h: Tensor


def shift_register(n: int, wrap: Wrap = "drop", *, dtype: torch.dtype | None = None) -> ColumnOneHot:
    """The ``n x n`` shift matrix in column form: cell j moves to cell j + 1.

    ``"drop"``: the last cell is lost (nilpotent, a memory of exactly n steps). ``"cyclic"``: it returns to cell 0 (a
    permutation). ``"hold"``: it stays and adds up what reaches it.

    Raises:
        InvalidInputError: ``n`` below 1, or another ``wrap``.

    Example:
        >>> shift_register(3).to_dense().tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    checked("wrap", wrap, Wrap)
    if n < 1:
        raise InvalidInputError(f"a register needs at least 1 cell; got {n}.")
    index, value = torch.arange(1, n + 1), torch.ones(n, dtype=dtype)
    index[-1] = n - 1 if wrap == "hold" else 0
    value[-1] = 0 if wrap == "drop" else 1
    return ColumnOneHot(index, value)


@register("shift")
class Shift(Layer):
    """Registers that remember the last N inputs.

    Args:
        d_model: E, width of input and output, and number of registers.
        d_state: N, cells per register.
        wrap: what the last cell does: ``"drop"``, ``"cyclic"`` or ``"hold"``.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, or another ``wrap``.

    Example:
        >>> layer = Shift(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 4]))
    """

    traits = Traits(
        structure="one fixed column-one-hot matrix",
        spectrum="0 (drop), N-th roots of unity (cyclic), 0 and 1 (hold)",
        input_dependent="nothing",
        one_layer=Claim("at most", "definite automata, which see the last N letters (drop)", "derived"),
        deeper=Claim("at most", "definite automata: k layers see the last k (N - 1) + 1 letters (drop)", "derived"),
        parity=False,
        cost="O(E N)",
        source="shift SSM of H3 (arXiv 2212.14052); parity of fixed transitions: arXiv 2411.12537",
    )
    index: Tensor
    value: Tensor

    def __init__(self, d_model: int, *, d_state: int = 16, wrap: Wrap = "drop", backend: Backend = "auto") -> None:
        super().__init__()
        if min(d_model, d_state) < 1:
            raise InvalidInputError(f"d_model and d_state must be at least 1; got {d_model}, {d_state}.")
        self.d_model, self.d_state, self.backend = d_model, d_state, backend
        matrix = shift_register(d_state, wrap)
        self.register_buffer("index", matrix.index, persistent=False)
        self.register_buffer("value", matrix.value, persistent=False)
        self.in_proj = nn.Linear(d_model, d_model, bias=False)
        self.C = nn.Parameter(torch.randn(d_model, d_state) / math.sqrt(d_state))
        self.D = nn.Parameter(torch.ones(d_model))
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, batch_size: int) -> ShiftState:
        return ShiftState(zero_state(self, batch_size, self.d_model, self.d_state))

    def transitions(self, x: Tensor, state: ShiftState | None = None) -> ColumnOneHot:
        """The same matrix for every token and register, ``(B, L, E, N)``."""
        shape = (*x.shape, self.d_state)
        return ColumnOneHot(self.index.expand(shape), at_least_float32(self.value).expand(shape))

    def _forward(self, x: Tensor, state: ShiftState, cu_seqlens: Tensor | None) -> tuple[Tensor, ShiftState]:
        v = at_least_float32(self.in_proj(x)).unsqueeze(-1)
        drive = nn.functional.pad(v, (0, self.d_state - 1))
        # One entry for all tokens, which a scan stores once.
        value = at_least_float32(self.value).expand(drive.shape)
        everywhere = RoutedOneHot(
            self.index.expand(self.d_model, 1, self.d_state), torch.zeros_like(x, dtype=torch.long), value, "column"
        )
        states, final = scan(everywhere, drive, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        y = (states * self.C).sum(-1).to(x.dtype)
        return self.out_proj(y) + self.D * x, ShiftState(final)
