"""Flash PD-SSM: each token picks one of K trained one-hot matrices.

    h_k[q]  = argmax_i M_k[i, q]                     dictionary, column form
    k_t     = argmax_k (S u_t)_k                     router
    x_t     = P_{h_{k_t}} (D(u_t) x_{t-1}) + B u_t ;   y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head, K = ``dictionary_size``. Gradients pass both argmaxes straight
through, with a softmax at temperature tau in their place (slope annealing lowers tau). Source: Flash PD-SSM (arXiv
2605.19150), PD-SSM (2509.22284).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.diagonal_generators import Field, Generator, Modulus, checked
from statetrack.layers.dictionary import DictionaryInit, initial_dictionary
from statetrack.layers.precision import at_least_float32
from statetrack.layers.readouts import Readout
from statetrack.layers.selective import InitialState, SelectiveLayer
from statetrack.scan import Backend, straight_through
from statetrack.structures import Orientation, RoutedOneHot
from statetrack.structures.orientation import choice_dim

Credit = Literal["full", "active"]


@register("flash-pd-ssm")
class FlashPDSSM(SelectiveLayer):
    """Flash PD-SSM layer.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per head.
        n_heads: H, independent recurrences that read the same input.
        dictionary_size: K, one-hot matrices per head.
        orientation: ``"column"`` (``P diag(D)``, can merge states) or ``"row"`` (``diag(D) P``).
        ste: ``"full"`` credits every alternative, ``"active"`` only what was chosen.
        temperature: tau of the straight-through softmax.
        temperature_end: tau when training ends, reached geometrically; None keeps it constant.
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

    Example:
        >>> layer = FlashPDSSM(8, d_state=4, dictionary_size=3)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]))
    """

    traits = Traits(
        structure="column- or row-one-hot times diagonal, one of K selections per token",
        spectrum="roots of cycle products, modulus < 1 (modulus 1 with unit or annealed modulus)",
        input_dependent="selection, diagonal",
        one_layer=Claim("exact", "every automaton with N states and K letters (column form)", "arXiv 2605.19150"),
        deeper=Claim("exact", "every automaton", "arXiv 2509.22284"),
        parity=True,
        cost="O(H N)",
        source="Flash PD-SSM (arXiv 2605.19150)",
    )

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        n_heads: int = 1,
        dictionary_size: int = 8,
        orientation: Orientation = "column",
        ste: Credit = "full",
        temperature: float = 1.0,
        temperature_end: float | None = None,
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
        checked("ste", ste, Credit)
        if not temperature > 0 or (temperature_end is not None and not temperature_end > 0):
            raise InvalidInputError(f"temperatures must be positive; got {temperature} and {temperature_end}.")
        self.orientation, self.ste, self.dictionary_size = orientation, ste, dictionary_size
        self.temperatures = (temperature, temperature if temperature_end is None else temperature_end)
        self.scores = nn.Parameter(initial_dictionary(n_heads, dictionary_size, d_state, dictionary_init, dictionary_scale))
        self.router = nn.Linear(d_model, n_heads * dictionary_size, bias=False)

    @property
    def temperature(self) -> float:
        """The straight-through temperature at the present point of training."""
        first, last = self.temperatures
        return first * (last / first) ** float(self.diagonal.progress)

    def _select(self, u: Tensor, value: Tensor) -> RoutedOneHot:
        logits = self.router(u).unflatten(-1, (self.n_heads, self.dictionary_size))
        scores, logits = at_least_float32(self.scores), at_least_float32(logits)
        dim = choice_dim(self.orientation)
        choice, route = scores.detach().argmax(dim), logits.detach().argmax(-1)
        dictionary = choice.to(torch.int16)
        if not torch.is_grad_enabled():
            return RoutedOneHot(dictionary, route, value, self.orientation)
        tau = self.temperature
        selection = straight_through(scores, dim, tau, choice)
        routing = straight_through(logits, -1, tau, route)
        return RoutedOneHot(dictionary, route, value, self.orientation, selection, routing, self.ste == "full")
