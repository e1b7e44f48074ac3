"""Complex diagonal layer: PD-SSM with ``P = I``, the paper's own ablation.

    x_t = D(u_t) x_{t-1} + B u_t ;   y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head. Source: PD-SSM (arXiv 2509.22284), "C-diagonal".
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.options import inherits_options
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
