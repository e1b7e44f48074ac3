"""What PD-SSM, Flash PD-SSM and the complex diagonal layer share: everything but the choice of ``P``.

    x_t = P(u_t) D(u_t) x_{t-1} + B u_t          (column form; row form: D P)
    y_t = readout(x_t) + d * u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head, ``u (B, L, E)`` layer input, ``x (B, L, H, N)`` state.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal, NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer
from statetrack.layers.diagonal_generators import DiagonalGenerator, Field, Generator, Modulus, checked
from statetrack.layers.precision import at_least_float32
from statetrack.layers.readouts import Readout, StateReadout
from statetrack.scan import Backend, scan
from statetrack.scan.backends import Transitions
from statetrack.scan.parts import join_parts
from statetrack.structures import MixedOneHot, RoutedOneHot, Structure

InitialState = Literal["first", "zero", "learned"]


class VectorState(NamedTuple):
    """Attributes:
    h: ``(B, H, N)`` state of every head.
    """

    h: Tensor


class SelectiveOptions(TypedDict, total=False):
    """The options of ``SelectiveLayer``."""

    d_state: int
    n_heads: int
    d_generator: Generator
    d_field: Field
    d_hidden: int
    modulus: Modulus
    magnitude_bias: float | None
    phase_levels: int | None
    additive_input: bool
    initial_state: InitialState
    readout: Readout
    skip: bool
    backend: Backend


class SelectiveLayer(Layer):
    """Common constructor and forward pass; a subclass turns the input and the diagonal into transitions.

    Args:
        d_model: E, width of input and output.
        d_state: N, state size per head.
        n_heads: H, independent recurrences that read the same input.
        d_generator: how D is computed: ``"mlp"`` (two layers), ``"affine"`` or ``"decay_phase"``.
        d_field: ``"complex"``, or ``"real"``: without phases.
        d_hidden: hidden width of the MLPs as a multiple of ``H N``.
        modulus: of D: ``"sigmoid"`` (below 1), ``"unit"`` (1) or ``"annealed"`` (from below 1 to 1 in training).
        magnitude_bias: initial bias of the modulus logits; None keeps that of a linear layer.
        phase_levels: Q, picks phases among the multiples of ``2 pi / Q``; with ``modulus="unit"`` the transitions then generate a
            finite monoid; with ``"annealed"`` they are mixed before they are picked. None allows all phases.
        additive_input: whether ``B u_t`` is added.
        initial_state: ``"first"`` (``e_1``), ``"zero"`` or ``"learned"``.
        readout: ``"affine"``, ``"real"`` (``Re(C x)``), ``"mlp"`` or ``"gated"``.
        skip: add ``d * u``.
        backend: of the scan.

    Raises:
        InvalidInputError: an option that does not fit, or a zero initial state without additive input.
    """

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
        phase_levels: int | None = None,
        additive_input: bool = True,
        initial_state: InitialState = "first",
        readout: Readout = "affine",
        skip: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, n_heads, d_hidden) < 1:
            raise InvalidInputError(
                f"d_model, d_state, n_heads and d_hidden must be at least 1; got {d_model}, {d_state}, {n_heads}, {d_hidden}."
            )
        checked("initial_state", initial_state, InitialState)
        if initial_state == "zero" and not additive_input:
            raise InvalidInputError("initial_state='zero' with additive_input=False keeps the state at zero; change one of them.")
        self.d_model, self.d_state, self.n_heads, self.backend = d_model, d_state, n_heads, backend
        self.is_complex = d_field == "complex"
        self.diagonal = DiagonalGenerator(
            d_model,
            n_heads,
            d_state,
            kind=d_generator,
            field=d_field,
            modulus=modulus,
            hidden=d_hidden,
            magnitude_bias=magnitude_bias,
            phase_levels=phase_levels,
        )
        size = n_heads * d_state
        self.input = nn.Linear(d_model, 2 * size if self.is_complex else size, bias=False) if additive_input else None
        if self.input is not None:
            nn.init.normal_(self.input.weight, std=1 / math.sqrt(2 * size))
        start = torch.zeros(n_heads, d_state, 2 if self.is_complex else 1)
        if initial_state != "zero":
            start[:, 0, 0] = 1.0
        if initial_state == "learned":
            self.start = nn.Parameter(start)
        else:
            self.register_buffer("start", start)
        self.readout = StateReadout(d_model, n_heads, d_state, kind=readout, is_complex=self.is_complex, skip=skip)

    @abstractmethod
    def _select(self, u: Tensor, value: Tensor) -> Transitions:
        """Transitions from the input ``u`` and the diagonal ``value (B, L, H, N)``."""

    def initial_state(self, batch_size: int) -> VectorState:
        start = at_least_float32(self.start)
        start = torch.view_as_complex(start.contiguous()) if self.is_complex else start.squeeze(-1)
        return VectorState(start.expand(batch_size, self.n_heads, self.d_state))

    def transitions(self, x: Tensor, state: VectorState | None = None) -> Structure:
        found = self._select(x, self.diagonal(x))
        return found.expand() if isinstance(found, RoutedOneHot | MixedOneHot) else found

    def _forward(self, x: Tensor, state: VectorState, cu_seqlens: Tensor | None) -> tuple[Tensor, VectorState]:
        transitions, inputs = self._generate(x)
        states, final = scan(transitions, inputs, state.h, cu_seqlens=cu_seqlens, backend=self.backend)
        states, final = self._settle(states, final, state.h, cu_seqlens)
        return self.readout(states, x), VectorState(final)

    def _settle(self, states: Tensor, final: Tensor, initial: Tensor, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        """States without what rounding moved them by, where it is known which ones there are."""
        return states, final

    def _generate(self, u: Tensor) -> tuple[Transitions, Tensor | None]:
        """Everything that the scan takes but the state."""
        return self._select(u, self.diagonal(u)), self._inputs(u)

    def _inputs(self, u: Tensor) -> Tensor | None:
        if self.input is None:
            return None
        b = at_least_float32(self.input(u))
        b = join_parts(b) if self.is_complex else b
        return b.unflatten(-1, (self.n_heads, self.d_state))

    def set_progress(self, fraction: float) -> None:
        super().set_progress(fraction)
        self.diagonal.progress.fill_(fraction)

    @property
    def anneals(self) -> bool:
        return self.diagonal.anneals
