"""Complex diagonal layer: PD-SSM with ``P = I``, the paper's own ablation.

    x_t = D(u_t) x_{t-1} + B u_t ;   y_t = readout(x_t) + d * u_t

Without input and with phases that are picked, ``x_t`` is the initial state turned by a root of unity, and is rounded to that: a
word of any length then ends where exact arithmetic would.

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head. Source: PD-SSM (arXiv 2509.22284), "C-diagonal".
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.options import inherits_options
from statetrack.layers.phase_choice import turned_by_roots
from statetrack.layers.selective import SelectiveLayer, SelectiveOptions
from statetrack.structures import Diagonal


@register("complex-diagonal")
class ComplexDiagonal(SelectiveLayer):
    """Selective diagonal layer with complex (or, by ``d_field``, positive real) eigenvalues; options as in ``SelectiveLayer``."""

    traits = Traits(
        structure="diagonal",
        spectrum="open unit disc (unit circle with unit or annealed modulus)",
        input_dependent="diagonal",
        one_layer=Claim("exact", "abelian groups (modulus 1, or in its limit)", "arXiv 2603.01959"),
        deeper=Claim(
            "exact", "k layers: groups with a subnormal series of length k with abelian factors; never A5", "arXiv 2603.01959"
        ),
        parity=True,
        cost="O(H N)",
        source="PD-SSM (arXiv 2509.22284); limits: arXiv 2603.01959",
    )

    pinnable = True

    @inherits_options(SelectiveLayer, initial_state="zero")
    def __init__(self, d_model: int, **shared: Unpack[SelectiveOptions]) -> None:
        super().__init__(d_model, **shared)

    def _select(self, u: Tensor, value: Tensor) -> Diagonal:
        return self.pins.on(Diagonal(value))

    def _settle(self, states: Tensor, final: Tensor, initial: Tensor, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        levels = self.diagonal.levels
        if levels is None or self.diagonal.modulus == "sigmoid" or self.input is not None:
            return states, final
        first = initial.unsqueeze(1)
        if cu_seqlens is not None:
            places = torch.arange(states.shape[1], device=states.device)
            first = initial[torch.searchsorted(cu_seqlens[1:], places, right=True)].unsqueeze(0)
        settled = turned_by_roots(states, first, levels), turned_by_roots(final, initial, levels)
        if self.diagonal.modulus == "unit":
            return settled
        soft = self.diagonal.progress < 1
        return torch.where(soft, states, settled[0]), torch.where(soft, final, settled[1])
