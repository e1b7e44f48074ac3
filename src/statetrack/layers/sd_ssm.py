"""SD-SSM, the selective dense state space: each token mixes K trained dense matrices.

    h_t = A(x_t) h_{t-1} + B x_t ;   A(x) = M(x) with every column divided by its L_p norm ;   M(x) = sum_k softmax(W x + c)_k A_k
    y_t = V LayerNorm(h_t) + a

Letters: E = ``d_model``, N = ``d_state``, K = ``dictionary_size``, p = ``power``. Source: On the expressiveness and length
generalization of selective state-space models on regular languages (arXiv 2412.19350).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.float32_linear import Float32Linear
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.layers.selective import InitialState
from statetrack.scan import scan
from statetrack.scan.backends import PlainBackend
from statetrack.structures import Dense


class SDSSMState(NamedTuple):
    """Attributes:
    h: ``(B, 1, N)``.
    """

    h: Tensor


@register("sd-ssm")
class SDSSM(KeepsFloat32, Layer):
    """SD-SSM layer.

    Args:
        d_model: E, width of input and output.
        d_state: N.
        dictionary_size: K, dense matrices.
        power: p of the column norm, above 1; the paper takes 1.1 to 1.4.
        additive_input: whether ``B x_t`` is added.
        initial_state: ``"zero"`` (the paper's), ``"first"`` (``e_1``) or ``"learned"``.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, a ``power`` of at most 1, an unknown ``initial_state``, or a zero initial state without
            additive input.

    Example:
        >>> layer = SDSSM(8, d_state=4, dictionary_size=3)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]))
    """

    traits = Traits(
        structure="dense, a mixture of K matrices with normalised columns",
        spectrum="unconstrained, complex; columns of L_p norm 1",
        input_dependent="the mixture",
        one_layer=Claim("at least", "every automaton with N states and K letters", "arXiv 2412.19350"),
        deeper=Claim("at least", "every automaton with N states and K letters", "arXiv 2412.19350"),
        parity=True,
        cost="O(K N^2) to mix, O(N^2) per step",
        source="SD-SSM (arXiv 2412.19350)",
    )
    float32_parameters = ("dictionary",)

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        dictionary_size: int = 8,
        power: float = 1.2,
        additive_input: bool = True,
        initial_state: InitialState = "zero",
        backend: PlainBackend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, dictionary_size) < 1 or not power > 1:
            raise InvalidInputError(
                "d_model, d_state and dictionary_size must be at least 1 and power above 1; got "
                f"{d_model}, {d_state}, {dictionary_size}, {power}."
            )
        checked("initial_state", initial_state, InitialState)
        if initial_state == "zero" and not additive_input:
            raise InvalidInputError("initial_state='zero' with additive_input=False keeps the state at zero; change one of them.")
        self.d_model, self.d_state, self.power, self.backend = d_model, d_state, power, backend
        bound = math.sqrt(6 / (2 * d_state))
        self.dictionary = nn.Parameter(torch.empty(dictionary_size, d_state, d_state).uniform_(-bound, bound))
        self.router = Float32Linear(d_model, dictionary_size)
        self.input = nn.Linear(d_model, d_state, bias=False) if additive_input else None
        start = torch.zeros(d_state)
        if initial_state != "zero":
            start[0] = 1.0
        self.start: Tensor
        if initial_state == "learned":
            self.start = nn.Parameter(start)
        else:
            self.register_buffer("start", start)
        self.norm = nn.LayerNorm(d_state)
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> SDSSMState:
        return SDSSMState(at_least_float32(self.start).expand(batch_size, 1, self.d_state))

    def transitions(self, x: Tensor, state: SDSSMState | None = None) -> Dense:
        with torch.autocast(x.device.type, enabled=False):
            weights = self.router(x).softmax(-1)
            mixture = (weights @ self.dictionary.flatten(1)).unflatten(-1, self.dictionary.shape[1:])
            return Dense((mixture / torch.linalg.vector_norm(mixture, self.power, dim=-2, keepdim=True)).unsqueeze(2))

    def _forward(self, x: Tensor, state: SDSSMState, cu_seqlens: Tensor | None) -> tuple[Tensor, SDSSMState]:
        inputs = None if self.input is None else at_least_float32(self.input(x)).unsqueeze(2)
        states, final = scan(self.transitions(x), inputs, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        return self.out(self.norm(states.squeeze(2).to(x.dtype))), SDSSMState(final)
