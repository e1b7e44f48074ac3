"""What ``bench layer`` and ``bench decode`` run: layers of any library behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers import Layer, make_layer


class NotRun(Exception):
    """A contender that cannot run here; the message says why."""


class Runner(nn.Module, ABC):
    """A layer ``(B, L, E) -> (B, L, E)`` that can also go token by token."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Whole sequences from an empty state."""

    @abstractmethod
    def start(self, batch_size: int) -> Any:
        """The state before the first token, tensors or something that holds them."""

    @abstractmethod
    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One token ``(B, E)``: the output and the new state."""


@dataclass(frozen=True)
class Contender:
    """One entry of a comparison.

    Attributes:
        name: for tables.
        library: whose layer it is; ``"statetrack"`` is ours.
        about: its sizes, in a few words.
        build: from the width E to a runner; raises ``NotRun``.
        streams: whether a step costs constant memory.
    """

    name: str
    library: str
    about: str
    build: Callable[[int], Runner]
    streams: bool = True

    @property
    def ours(self) -> bool:
        """Whether it is a layer of this library."""
        return self.library == "statetrack"


class OwnRunner(Runner):
    """A layer of this library."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)[0]
        return y

    def start(self, batch_size: int) -> Any:
        return self.layer.initial_state(batch_size)

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.layer.step(x_t, state)


def own(layer: str, about: str, *, name: str | None = None, streams: bool = True, **options: Any) -> Contender:
    """A registered layer as a contender."""
    return Contender(name or layer, "statetrack", about, lambda width: OwnRunner(make_layer(layer, width, **options)), streams)


def build(contender: Contender, width: int) -> Runner:
    """A contender with the same weights whenever it is built. Raises ``NotRun`` with the reason if it cannot run here.

    Other libraries refuse a width in errors of any kind, ours in ``InvalidInputError``.
    """
    refusals: type[Exception] = InvalidInputError if contender.ours else Exception
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return contender.build(width)
        except NotRun:
            raise
        except refusals as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise NotRun(f"a width of {width} does not fit: {reason}") from error
