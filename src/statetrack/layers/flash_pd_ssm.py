"""Flash PD-SSM: each token picks one of K trained one-hot matrices.

    h_k[q]  = argmax_i M_k[i, q]                     dictionary, column form
    k_t     = argmax_k (S u_t)_k                     router
    x_t     = P_{h_{k_t}} (D(u_t) x_{t-1}) + B u_t ;   y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head, K = ``dictionary_size``. Gradients pass both argmaxes straight
through, with a softmax at temperature tau in their place (slope annealing lowers tau). Source: Flash PD-SSM (arXiv
2605.19150), PD-SSM (2509.22284).
"""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.dictionary import DictionaryLayer, DictionaryOptions
from statetrack.layers.flash_step import one_call_step
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import at_least_float32
from statetrack.layers.selective import VectorState
from statetrack.scan import straight_through
from statetrack.scan.backends import Transitions
from statetrack.scan.fused_generator import fused_generator, fused_generator_runs
from statetrack.structures import RoutedOneHot
from statetrack.structures.orientation import choice_dim

Credit = Literal["full", "active"]


@register("flash-pd-ssm")
class FlashPDSSM(DictionaryLayer):
    """Flash PD-SSM layer; further options as in ``DictionaryLayer`` and ``SelectiveLayer``.

    Args:
        ste: ``"full"`` credits every alternative, ``"active"`` only what was chosen.
        temperature: tau of the straight-through softmax.
        temperature_end: tau when training ends, reached geometrically; None keeps it constant.

    Raises:
        InvalidInputError: an option that does not fit.

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

    @inherits_options(DictionaryLayer)
    def __init__(
        self,
        d_model: int,
        *,
        ste: Credit = "full",
        temperature: float = 1.0,
        temperature_end: float | None = None,
        **shared: Unpack[DictionaryOptions],
    ) -> None:
        super().__init__(d_model, **shared)
        checked("ste", ste, Credit)
        if not temperature > 0 or (temperature_end is not None and not temperature_end > 0):
            raise InvalidInputError(f"temperatures must be positive; got {temperature} and {temperature_end}.")
        self.ste = ste
        self.temperatures = (temperature, temperature if temperature_end is None else temperature_end)

    @property
    def temperature(self) -> float:
        """The straight-through temperature at the present point of training."""
        first, last = self.temperatures
        return first * (last / first) ** float(self.diagonal.progress)

    def _temperature_tensor(self) -> Tensor:
        """The same, ``()``, for which neither the host nor a compiler has to wait."""
        first, last = self.temperatures
        found: Tensor = first * (last / first) ** at_least_float32(self.diagonal.progress)
        return found

    def _step(self, x_t: Tensor, state: VectorState) -> tuple[Tensor, VectorState]:
        found = one_call_step(self, x_t, state.h)
        if found is None:
            return super()._step(x_t, state)
        y, h = found
        return y, VectorState(h)

    def _generate(self, u: Tensor) -> tuple[Transitions, Tensor | None]:
        picked = self.diagonal.levels is not None or (self.diagonal.magnitude is None and self.diagonal.phase is None)
        if picked or not fused_generator_runs(self.backend, u.device.type):
            return super()._generate(u)
        decay, rate, phase = self.diagonal.logits(u)
        drive = None if self.input is None else self.input(u)
        credited = torch.is_grad_enabled()
        made = fused_generator(
            decay,
            rate,
            phase,
            drive,
            self._logits(u),
            rising=self.diagonal.rising,
            turns=self.diagonal.turns,
            temperature=self._temperature_tensor(),
            credited=credited,
        )
        return self._routed(made.value, made.route, made.routing), made.inputs

    def _select(self, u: Tensor, value: Tensor) -> RoutedOneHot:
        logits = self._logits(u)
        route = logits.detach().argmax(-1)
        credited = torch.is_grad_enabled()
        return self._routed(value, route, straight_through(logits, -1, self.temperature, route) if credited else None)

    def _routed(self, value: Tensor, route: Tensor, routing: Tensor | None) -> RoutedOneHot:
        """The transitions for given routes, with ``routing`` for their credit."""
        scores, dim = at_least_float32(self.scores), choice_dim(self.orientation)
        choice = scores.detach().argmax(dim)
        dictionary = choice.to(torch.int16)
        if routing is None:
            return RoutedOneHot(dictionary, route, value, self.orientation)
        selection = straight_through(scores, dim, self.temperature, choice)
        return RoutedOneHot(dictionary, route, value, self.orientation, selection, routing, self.ste == "full")
