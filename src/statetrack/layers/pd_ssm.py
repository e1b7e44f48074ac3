"""PD-SSM: a one-hot matrix read off a soft mixture of K trained matrices, for every token.

    s_t    = softmax(S u_t)                                     mixture over the dictionary
    P_t    = hardmax of sum_k s_{t,k} M_k, per column           (row form: per row)
    x_t    = P_t (D(u_t) x_{t-1}) + B u_t ;   y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head, K = ``dictionary_size``. The backward pass takes the softmax
at temperature 1 in place of the hardmax. Tokens with equal inputs share one selection and its gradient. Source: PD-SSM
(arXiv 2509.22284).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.diagonal_generators import Field, Generator, Modulus, checked
from statetrack.layers.dictionary import DictionaryInit, initial_dictionary
from statetrack.layers.precision import at_least_float32
from statetrack.layers.readouts import Readout
from statetrack.layers.repetition import distinct_rows
from statetrack.layers.selective import InitialState, SelectiveLayer
from statetrack.scan import Backend, straight_through
from statetrack.structures import MixedOneHot, Orientation, RoutedOneHot
from statetrack.structures.orientation import choice_dim

_SHARED_ENTRIES = 1 << 22


@register("pd-ssm")
class PDSSM(SelectiveLayer):
    """PD-SSM layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per head.
        n_heads: H, independent recurrences that read the same input (the paper has one).
        dictionary_size: K, matrices mixed per head.
        orientation: ``"column"`` (``P diag(D)``, as in the paper) or ``"row"`` (``diag(D) P``, as in the authors'
            state-tracking code).
        dictionary_init: ``"normal"``, or normal around random permutations or the identity.
        dictionary_scale: weight of the permutations or the identity against the noise.
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
        structure="column- or row-one-hot times diagonal, read off a mixture",
        spectrum="roots of cycle products, modulus < 1 (modulus 1 with unit or annealed modulus)",
        input_dependent="selection, diagonal",
        one_layer=Claim("exact", "every automaton with N states (column form)", "arXiv 2509.22284"),
        deeper=Claim("exact", "every automaton", "arXiv 2509.22284"),
        parity=True,
        cost="O(H N), selections O(H K N^2)",
        source="PD-SSM (arXiv 2509.22284)",
    )

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        n_heads: int = 1,
        dictionary_size: int = 8,
        orientation: Orientation = "column",
        dictionary_init: DictionaryInit = "normal",
        dictionary_scale: float = 2.0,
        d_generator: Generator = "mlp",
        d_field: Field = "complex",
        d_hidden: int = 2,
        modulus: Modulus = "sigmoid",
        magnitude_bias: float | None = 3.0,
        additive_input: bool = True,
        initial_state: InitialState = "first",
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
        checked("orientation", orientation, Orientation)
        self.orientation, self.dictionary_size = orientation, dictionary_size
        self.scores = nn.Parameter(initial_dictionary(n_heads, dictionary_size, d_state, dictionary_init, dictionary_scale))
        self.router = nn.Linear(d_model, n_heads * dictionary_size, bias=False)

    def _select(self, u: Tensor, value: Tensor) -> MixedOneHot | RoutedOneHot:
        found = distinct_rows(u, self._most_shared(u.shape[0] * u.shape[1]))
        if found is None:
            mix = self._mix(u)
            return MixedOneHot(self.scores.to(mix.dtype), mix, value, self.orientation)
        with torch.autocast(u.device.type, enabled=False):
            mixed = torch.einsum("ghk,hkij->hgij", self._mix(found.rows), at_least_float32(self.scores))
        dim = choice_dim(self.orientation)
        choice = mixed.detach().argmax(dim)
        route = found.which.unsqueeze(-1).expand(*found.which.shape, self.n_heads)
        selection = straight_through(mixed, dim, index=choice) if torch.is_grad_enabled() else None
        return RoutedOneHot(choice.to(torch.int16), route, value, self.orientation, selection)

    def _most_shared(self, n_tokens: int) -> int:
        """How many distinct inputs may get a selection each: it has to save work, and little memory may go into it (at most a
        few states per token, or 16 MB per head)."""
        return min(n_tokens // 2, max(4 * n_tokens // self.d_state, _SHARED_ENTRIES // self.d_state**2))

    def _mix(self, u: Tensor) -> Tensor:
        """Weights of the dictionary ``(..., H, K)``, which sum to 1 over ``K``."""
        return at_least_float32(self.router(u).unflatten(-1, (self.n_heads, self.dictionary_size))).softmax(-1)
