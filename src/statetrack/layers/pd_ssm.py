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
from torch import Tensor

from statetrack.layers.base import Claim, Traits, register
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.layers.precision import at_least_float32
from statetrack.layers.repetition import distinct_rows
from statetrack.scan import straight_through
from statetrack.structures import MixedOneHot, RoutedOneHot
from statetrack.structures.orientation import choice_dim

_SHARED_ENTRIES = 1 << 22


@register("pd-ssm")
class PDSSM(DictionaryLayer):
    """PD-SSM layer; options as in ``DictionaryLayer`` and ``SelectiveLayer`` (the paper has one head)."""

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
        return self._logits(u).softmax(-1)
