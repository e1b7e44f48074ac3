"""Simple AUSSM: nothing but rotations chosen by the input, and a decoder.

    h_t = exp(i W_theta x_t) * h_{t-1} + B x_t ;   y_t = MLP([Re h_t; Im h_t; x_t])

Letters: E = ``d_model``, N = ``d_state`` complex states. The Expressive Limits of Diagonal SSMs for State-Tracking (arXiv
2603.01959) compares a simplified AUSSM whose exact definition is unconfirmed: this one is the library's own. It drops from AUSSM
(arXiv 2507.05238) the time step, the convolution, the gate and the states per channel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.layers.readouts import parts
from statetrack.layers.rotations import Rotations
from statetrack.layers.selective import VectorState
from statetrack.scan import Backend, scan
from statetrack.structures import Diagonal


@register("simple-aussm")
class SimpleAUSSM(Layer):
    """Unit-circle diagonal layer with an MLP decoder.

    Phases of inputs of unit variance start spread over the circle, with the variance of a uniform phase.

    Args:
        d_model: E, width of input and output.
        d_state: N, number of complex states.
        d_hidden: hidden width of the decoder as a multiple of E.
        additive_input: add ``B x_t``; without it states start at 1 instead of 0 and stay on the unit circle.
        phase_levels: Q, rounds phases to multiples of ``2 pi / Q``, with gradients straight through; without additive input the
            layer then is a finite automaton. None keeps all phases.
        backend: of the scan.

    Raises:
        InvalidInputError: a size below 1, or fewer than 2 levels.

    Example:
        >>> layer = SimpleAUSSM(8, d_state=4)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 1, 4]))
    """

    traits = Traits(
        structure="diagonal",
        spectrum="unit circle",
        input_dependent="phases",
        one_layer=Claim("exact", "abelian groups", "arXiv 2603.01959"),
        deeper=Claim(
            "exact", "k layers: groups with a subnormal series of length k with abelian factors; never A5", "arXiv 2603.01959"
        ),
        parity=True,
        cost="O(N)",
        source="arXiv 2603.01959, definition unconfirmed; after AUSSM (arXiv 2507.05238)",
    )

    pinnable = True

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        d_hidden: int = 2,
        additive_input: bool = True,
        phase_levels: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, d_hidden) < 1:
            raise InvalidInputError(f"d_model, d_state and d_hidden must be at least 1; got {d_model}, {d_state}, {d_hidden}.")
        self.d_model, self.d_state, self.backend = d_model, d_state, backend
        self.phase = Rotations(d_model, 1, d_state, levels=phase_levels)
        nn.init.normal_(self.phase.linear.weight, std=math.pi / math.sqrt(3 * d_model))
        self.input = nn.Linear(d_model, 2 * d_state, bias=False) if additive_input else None
        if self.input is not None:
            nn.init.normal_(self.input.weight, std=1 / math.sqrt(2 * d_model))
        hidden = d_hidden * d_model
        self.decoder = nn.Sequential(nn.Linear(2 * d_state + d_model, hidden), nn.GELU(), nn.Linear(hidden, d_model))

    def initial_state(self, batch_size: int) -> VectorState:
        zero = zero_state(self, batch_size, 1, self.d_state)
        return VectorState(torch.complex(torch.ones_like(zero) if self.input is None else zero, zero))

    def transitions(self, x: Tensor, state: VectorState | None = None) -> Diagonal:
        """``exp(i W_theta x)``, shape ``(B, L, 1, N)``."""
        return self.pins.on(self.phase(x))

    def _forward(self, x: Tensor, state: VectorState, cu_seqlens: Tensor | None) -> tuple[Tensor, VectorState]:
        drive = None
        if self.input is not None:
            drive = torch.view_as_complex(at_least_float32(self.input(x)).unflatten(-1, (1, self.d_state, 2)).contiguous())
        states, final = scan(self.transitions(x), drive, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        return self.decoder(torch.cat([parts(states).to(x.dtype), x], dim=-1)), VectorState(final)
