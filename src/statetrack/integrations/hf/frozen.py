"""The frozen lower part of a language model, run once: what its first trained decoder layer is given depends on the text alone.

    states = layer_{k-1}( ... layer_0(embed(ids)))       once for each text, without gradients
    output = layer_{n-1}( ... layer_k(states))           as often as there is something to train in it

Causal layers give a shorter text the same states, so those of a text serve all its beginnings too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf.insertion import StandIn, decoder_layers


class _ReachedError(Exception):
    """Carries what the first trained decoder layer is given out of the model."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class _Given(StandIn):
    """Passes on the states that the lower part gave once."""

    def __init__(self, original: nn.Module, states: Tensor) -> None:
        super().__init__(original)
        self.__dict__["states"] = states

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return cast(Tensor, self.states)


class FrozenPart:
    """The decoder layers of a model below the first one that is trained, or has something trained before it.

    Args:
        model: a causal language model of transformers, with our layers or an adapter in its upper part.
        first: number of the first decoder layer that is run every time, negative from the end; at least 1 of 0 to n - 1.

    Raises:
        InvalidInputError: no such layer, or one below it has parameters that require gradients.
    """

    def __init__(self, model: Any, first: int) -> None:
        self.model, self.layers = model, decoder_layers(model)
        n = len(self.layers)
        if isinstance(first, bool) or not isinstance(first, int) or not -n < first < n or first == 0:
            raise InvalidInputError(f"first must name one of the decoder layers 1 to {n - 1}, or -{n - 1} to -1; got {first!r}.")
        self.first = first % n
        below = {f"decoder layer {i}": layer for i, layer in enumerate(self.layers[: self.first])}
        for name, part in {"the embedding": model.get_input_embeddings(), **below}.items():
            trained = [parameter for parameter, value in part.named_parameters() if value.requires_grad]
            if trained:
                raise InvalidInputError(f"Below layer {self.first} {name} is trained ({trained[0]}), so its output changes.")

    @torch.no_grad()
    def states(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """What decoder layer ``first`` is given, ``(B, L, E)``, for ids and mask ``(B, L)``; as in ``eval()``."""

        def stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _ReachedError(args[0] if args else kwargs["hidden_states"])

        training = {module: module.training for module in self.model.modules()}
        self.model.eval()
        handle = self.layers[self.first].register_forward_pre_hook(stop, with_kwargs=True, prepend=True)
        try:
            self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        except _ReachedError as reached:
            return reached.states
        finally:
            handle.remove()
            for module, before in training.items():
                module.training = before
        raise InvalidInputError(f"{type(self.model).__name__} does not run its decoder layer {self.first}.")

    @contextmanager
    def given(self, states: Tensor) -> Iterator[None]:
        """Within it a call of the model, with the ids and the mask of these states, runs the upper part alone."""
        below = list(self.layers[: self.first])
        try:
            for i, layer in enumerate(below):
                self.layers[i] = _Given(layer, states) if i == self.first - 1 else StandIn(layer)
            yield
        finally:
            for i, layer in enumerate(below):
                self.layers[i] = layer
