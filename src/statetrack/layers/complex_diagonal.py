"""Complex diagonal layer: PD-SSM with ``P = I``, the paper's own ablation.

    x_t = D(u_t) x_{t-1} + B u_t ;   y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head. Source: PD-SSM (arXiv 2509.22284), "C-diagonal".
"""

from __future__ import annotations

from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.diagonal_generators import Field, Generator, Modulus
from statetrack.layers.readouts import Readout
from statetrack.layers.selective import InitialState, SelectiveLayer
from statetrack.scan import Backend
from statetrack.structures import Diagonal


@register("complex-diagonal")
class ComplexDiagonal(SelectiveLayer):
    """Selective diagonal layer with complex (or, by ``d_field``, positive real) eigenvalues.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per head.
        n_heads: H.
        d_generator: how D is computed: ``"mlp"`` (two layers), ``"affine"`` or ``"decay_phase"``.
        d_field: ``"complex"``, or ``"real"``: without phases.
        d_hidden: hidden width of the MLPs as a multiple of ``H N``.
        modulus: of D: ``"sigmoid"`` (below 1), ``"unit"`` (1) or ``"annealed"`` (from the first to the second in training).
        magnitude_bias: initial bias of the modulus logits; None keeps that of a linear layer.
        additive_input: whether ``B u_t`` is added.
        initial_state: ``"first"`` (``e_1``), ``"zero"`` or ``"learned"``.
        readout: ``"affine"``, ``"real"`` (``Re(C x)``), ``"mlp"`` or ``"gated"``.
        skip: add ``d * u``.
        backend: of the scan.

    Raises:
        InvalidInputError: an option that does not fit, or a zero initial state without additive input.
    """

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

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        n_heads: int = 1,
        d_generator: Generator = "mlp",
        d_field: Field = "complex",
        d_hidden: int = 2,
        modulus: Modulus = "sigmoid",
        magnitude_bias: float | None = 3.0,
        additive_input: bool = True,
        initial_state: InitialState = "zero",
        readout: Readout = "affine",
        skip: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(
            d_model,
            d_state=d_state,
            n_heads=n_heads,
            d_generator=d_generator,
            d_field=d_field,
            d_hidden=d_hidden,
            modulus=modulus,
            magnitude_bias=magnitude_bias,
            additive_input=additive_input,
            initial_state=initial_state,
            readout=readout,
            skip=skip,
            backend=backend,
        )

    def _select(self, u: Tensor, value: Tensor) -> Diagonal:
        return Diagonal(value)
