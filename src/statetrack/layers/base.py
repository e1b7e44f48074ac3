"""What a layer is: a map from sequences to sequences with a state that can be carried, stepped and inspected."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from statetrack._typing import Bool, Float, Int
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers.arguments import check_input, check_state, forget
from statetrack.layers.pins import Pins
from statetrack.registry import Registry
from statetrack.scan.offsets import checked_offsets
from statetrack.structures import Structure

layers: Registry[type[Layer]] = Registry("layer", "statetrack.layers")

State = tuple[Tensor, ...]
"""A layer's state: a named tuple of tensors, each with the batch first."""


def register(name: str) -> Callable[[type[Layer]], type[Layer]]:
    """Class decorator that makes a layer known to the library, the command line and the contract suites under ``name``."""
    return layers.register(name)


@dataclass(frozen=True)
class Claim:
    """What is proved about the automata that a layer can track.

    Attributes:
        kind: ``"exact"``: these and no others; ``"at least"``: these, others are open; ``"at most"``: no others, not all of these
            are shown; ``"unknown"``: nothing is proved.
        what: a class of automata or groups.
        source: paper, with its arXiv number, or ``"derived"`` for what the library's own tests show.
    """

    kind: Literal["exact", "at least", "at most", "unknown"]
    what: str = ""
    source: str = ""

    def __str__(self) -> str:
        return self.what if self.kind == "exact" else f"{self.kind} {self.what}".rstrip()


@dataclass(frozen=True)
class Traits:
    """What is known about a layer.

    Attributes:
        structure: family of the transition matrix.
        spectrum: where its eigenvalues lie.
        input_dependent: which parts depend on the input.
        one_layer: what one layer tracks at finite precision.
        deeper: what stacks of it track.
        parity: whether some stack tracks the parity of a word at every length; None where that is open.
        cost: of the state update, per token.
        source: paper, with its arXiv number.
        linear: whether the recurrence is linear in the state.
        streams: whether one step costs constant memory.
        needs: options, other than the defaults, that the claims suppose.
    """

    structure: str
    spectrum: str
    input_dependent: str
    one_layer: Claim
    deeper: Claim
    parity: bool | None
    cost: str
    source: str
    linear: bool = True
    streams: bool = True
    needs: Mapping[str, Any] = field(default_factory=dict)


class Layer(nn.Module, ABC):
    """A sequence layer ``(B, L, d_model) -> (B, L, d_model)``.

    A subclass names all its options as keyword-only constructor arguments and defines ``_forward``, ``initial_state`` and
    ``transitions``; where a single token can be had cheaper, also ``_step``. What is given is checked here, for all layers. The
    laws a layer has to keep are checked by ``statetrack.testing.check_layer``.
    """

    traits: ClassVar[Traits]
    pinnable: ClassVar[bool] = False
    """Whether the layer passes its diagonal through ``self.pins``, so that ``polarize`` can pin eigenvalues."""
    pins_heads: ClassVar[bool] = False
    """Whether pins count heads, each of which has a single decay, and not states."""
    pins: Pins = Pins()
    d_model: int
    options: dict[str, Any]
    """The options that the layer was built with, without those left at their defaults."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        layer = super().__new__(cls)
        layer.__dict__["options"] = options
        return layer

    @abstractmethod
    def _forward(self, x: Tensor, state: Any, cu_seqlens: Tensor | None) -> tuple[Tensor, Any]:
        """``forward`` on checked arguments, without padding; ``state`` is never None."""

    @abstractmethod
    def initial_state(self, batch_size: int) -> Any:
        """The state before the first token: a named tuple of tensors ``(batch_size, ...)``."""

    @abstractmethod
    def transitions(self, x: Tensor, state: Any = None) -> Structure:
        """The transition matrices along ``x (B, L, d_model)``, with batch dimensions ``(B, L, H)``.

        For a layer that is not linear in its state: the Jacobians along the run that starts from ``state``.
        """

    def forward(
        self,
        x: Float[Tensor, "B L d_model"],
        state: Any = None,
        *,
        mask: Bool[Tensor, "B L"] | None = None,
        cu_seqlens: Int[Tensor, " offsets"] | None = None,
    ) -> tuple[Float[Tensor, "B L d_model"], Any]:
        """Run the layer over whole sequences.

        Args:
            x: ``(B, L, d_model)``.
            state: state to start from; None means ``initial_state``.
            mask: ``(B, L)`` bool, false at padding, which may lie anywhere: it leaves states untouched and its outputs are zero.
            cu_seqlens: ``(S + 1,)`` offsets of documents packed along ``L`` of a batch of one; states have ``S`` rows.

        Returns:
            Outputs ``(B, L, d_model)`` and the state after the last token of each row.

        Raises:
            InvalidInputError: a shape, dtype or state that does not fit, or both ``mask`` and ``cu_seqlens``.
        """
        check_input(self, x, lengths="L")
        if mask is not None:
            if cu_seqlens is not None:
                raise InvalidInputError("Give either mask or cu_seqlens, not both.")
            return self._forward_masked(x, state, mask)
        if cu_seqlens is not None:
            cu_seqlens = checked_offsets(cu_seqlens, *x.shape[:2])
        rows = x.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
        return self._forward(x, self._checked_state(state, rows), cu_seqlens)

    def _forward_masked(self, x: Tensor, state: Any, mask: Tensor) -> tuple[Tensor, Any]:
        """Padding is taken out and the rest run as packed documents, so that no layer needs code for padding."""
        if not isinstance(mask, Tensor):
            raise InvalidInputError(f"mask needs a tensor, got a {type(mask).__name__}.")
        if mask.shape != x.shape[:2] or mask.dtype != torch.bool:
            raise InvalidInputError(
                f"mask needs shape {tuple(x.shape[:2])} and dtype bool, got {tuple(mask.shape)} and {mask.dtype}."
            )
        offsets = torch.cat([mask.new_zeros(1, dtype=torch.long), mask.sum(1).cumsum(0)])
        packed, state = self.forward(x[mask].unsqueeze(0), state, cu_seqlens=offsets)
        y = packed.new_zeros(*x.shape[:2], packed.shape[-1])
        y[mask] = packed[0]
        return y, state

    def step(self, x_t: Float[Tensor, "B d_model"], state: Any) -> tuple[Float[Tensor, "B d_model"], Any]:
        """One token ``(B, d_model)``: output ``(B, d_model)`` and the new state; None stands for ``initial_state``.

        Raises:
            InvalidInputError: a shape, dtype or state that does not fit.
        """
        check_input(self, x_t, lengths="")
        return self._step(x_t, self._checked_state(state, x_t.shape[0]))

    def _step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """``step`` on checked arguments."""
        y, state = self._forward(x_t.unsqueeze(1), state, None)
        return y.squeeze(1), state

    def _checked_state(self, state: Any, rows: int) -> Any:
        if state is None:
            return self.initial_state(rows)
        check_state(self, state, rows)
        return state

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Layer:
        forget(self)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def set_progress(self, fraction: float) -> None:
        """Tell the layer how much of its training is done; layers with a schedule (annealing) extend it.

        Raises:
            InvalidInputError: a fraction outside [0, 1].
        """
        if not 0 <= fraction <= 1:
            raise InvalidInputError(f"The share of training that is done lies in [0, 1], got {fraction}.")

    @property
    def anneals(self) -> bool:
        """Whether outputs, and not only gradients, depend on what ``set_progress`` told."""
        return False


def rebuilt(layer: Layer, **changes: Any) -> Layer:
    """A new layer of the same class and dtype, with other options and fresh weights; the global random state is left as it was.

    Raises:
        InvalidInputError: an option's value does not fit.
    """
    probe = next(layer.parameters())
    with torch.random.fork_rng(devices=[]):
        built = type(layer)(layer.d_model, **{**layer.options, **changes})  # type: ignore[call-arg]
    built.pins = layer.pins
    return built.to(probe).train(layer.training)


def layer_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a registered layer by name, without ``d_model``."""
    parameters = inspect.signature(layers.get(name).__init__).parameters
    return {key: p for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY}


def make_layer(name: str, d_model: int, **options: Any) -> Layer:
    """Build a registered layer.

    Raises:
        UnknownNameError: no layer, or no option of it, has that name; the nearest ones are named.
        InvalidInputError: an option's value does not fit.
    """
    known = layer_options(name)
    for key in options:
        if key not in known:
            raise UnknownNameError(f"option of {name}", key, known)
    return layers.get(name)(d_model, **options)  # type: ignore[call-arg]
