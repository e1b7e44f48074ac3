"""What the time-invariant layers with complex modes share: input, readout, skip, mixing, and the scan of a fixed diagonal.

    h_t = A h_{t-1} + gain * (B u_t) ;   y_t = factor * Re(C h_t) + D * u_t ;   out = glu(gelu(y))

Letters: E = ``d_model``, N = ``d_state`` complex modes, ``u (B, L, E)`` layer input, ``h (B, L, 1, N)`` state.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits
from statetrack.layers.glu import GatedMixing
from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state
from statetrack.layers.readouts import StateReadout
from statetrack.scan import Backend, scan
from statetrack.structures import Diagonal


def time_invariant_traits(*, structure: str, spectrum: str, cost: str, paper: str) -> Traits:
    """Traits of transitions that do not depend on the input: they can count positions and follow no group.

    Args:
        structure: family of the transition matrix.
        spectrum: where its eigenvalues lie.
        cost: of the state update, per token.
        paper: the layer's own, with its arXiv number.
    """
    return Traits(
        structure=f"{structure}, the same for all tokens",
        spectrum=spectrum,
        input_dependent="nothing",
        one_layer=Claim("at most", "no non-trivial group; position modulo m (a clock)", "arXiv 2603.01959, arXiv 2601.19467"),
        deeper=Claim("at most", "no non-trivial group: parity is out of reach at every depth", "arXiv 2411.12537"),
        parity=False,
        cost=cost,
        source=f"{paper}; limits: arXiv 2411.12537, arXiv 2603.01959",
    )


class ModalState(NamedTuple):
    """Attributes:
    h: ``(B, 1, N)`` complex.
    """

    h: Tensor


def zero_modes(module: nn.Module, *shape: int) -> Tensor:
    """Complex zeros on the device of a module, with parts in its dtype but at least float32."""
    return torch.view_as_complex(zero_state(module, *shape, 2))


class ModalLayer(KeepsFloat32, Layer):
    """Input map, readout and mixing around N complex modes.

    Args:
        d_model: E.
        d_state: N.
        glu: mix channels with GELU and a gated linear unit behind the state space.
        backend: of the scan.
    """

    readout_factor: float = 1.0

    def __init__(self, d_model: int, *, d_state: int, glu: bool, backend: Backend) -> None:
        super().__init__()
        if min(d_model, d_state) < 1:
            raise InvalidInputError(f"d_model and d_state must be at least 1; got {d_model}, {d_state}.")
        self.d_model, self.d_state, self.backend = d_model, d_state, backend
        self.input = nn.Linear(d_model, 2 * d_state, bias=False)
        self.readout = StateReadout(d_model, 1, d_state, kind="real")
        self.mix = GatedMixing(d_model) if glu else nn.Identity()

    def _start(self, b: Tensor, c: Tensor) -> None:
        """Initial values: ``B (N, E)`` and ``C (E, N)`` complex, D normal."""
        out, skip = self.readout.out, self.readout.skip
        assert isinstance(out, nn.Linear)
        assert skip is not None
        with torch.no_grad():
            self.input.weight.copy_(torch.cat([b.real, b.imag]))
            out.weight.copy_(torch.cat([c.real, -c.imag], dim=1))
            nn.init.normal_(skip)

    def _drive(self, x: Tensor) -> Tensor:
        """``B u`` of shape ``(B, L, N)``, complex."""
        re, im = at_least_float32(self.input(x)).chunk(2, dim=-1)
        return torch.complex(re, im)

    def _output(self, states: Tensor, x: Tensor) -> Tensor:
        """``(B, L, E)`` from complex states ``(B, L, 1, N)`` and the layer's input."""
        y: Tensor = self.mix(self.readout(self.readout_factor * states, x))
        return y


class FixedDiagonal(ModalLayer):
    """Modes that do not mix; a subclass says how fast each one decays and turns."""

    @abstractmethod
    def _modes(self) -> tuple[Tensor, Tensor]:
        """The eigenvalues ``(N,)`` complex, and the gain of each mode's input ``(N,)``."""

    def initial_state(self, batch_size: int) -> ModalState:
        return ModalState(zero_modes(self, batch_size, 1, self.d_state))

    def transitions(self, x: Tensor, state: ModalState | None = None) -> Diagonal:
        return self._repeated(self._modes()[0], x)

    def _forward(self, x: Tensor, state: ModalState, cu_seqlens: Tensor | None) -> tuple[Tensor, ModalState]:
        decay, gain = self._modes()
        drive = (gain * self._drive(x)).unsqueeze(2)
        states, final = scan(self._repeated(decay, x), drive, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        return self._output(states, x), ModalState(final)

    def _repeated(self, decay: Tensor, x: Tensor) -> Diagonal:
        return Diagonal(decay.expand(*x.shape[:2], 1, self.d_state))
