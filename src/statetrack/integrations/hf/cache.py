"""The states of our layers inside the cache that ``transformers`` hands from call to call.

A ``Cache`` is a list with one entry for each layer of a model; ours are ``StateSlot``. They hold any layer's state, since
a state is a tuple of tensors with the batch first: beams and changes of the batch select rows of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from statetrack.errors import InvalidInputError


class StateSlot(CacheLayerMixin):
    """The state of one layer and the number of positions it has seen, padding included."""

    supports_early_init = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state: Any = None
        self.seen = 0

    def set(self, state: Any, n_new: int) -> None:
        """Remember a state that ``n_new`` positions have led to."""
        self.state, self.seen, self.is_initialized = state, self.seen + n_new, True

    def get_seq_length(self) -> int:
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self.state, self.seen, self.is_initialized = None, 0, False

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._each(lambda field: field.index_select(0, beam_idx.to(field.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self._each(lambda field: field.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some rows."""
        self._each(lambda field: field[indices])

    def crop(self, tokens_to_remove: int) -> None:
        """Raises ``InvalidInputError``: a state does not remember its past."""
        if tokens_to_remove:
            raise InvalidInputError("A recurrent state cannot go back by some tokens; assisted decoding needs attention alone.")

    def offload(self) -> None:
        self.device = None if self.state is None else self.state[0].device
        self._each(lambda field: field.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        if self.state is not None and getattr(self, "device", None) is not None:
            self._each(lambda field: field.to(self.device, non_blocking=True))

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        raise InvalidInputError("This entry of the cache holds the state of a recurrent layer, not keys and values.")

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        raise InvalidInputError("This entry of the cache holds the state of a recurrent layer, not keys and values.")

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.state is not None:
            fields = [change(field) for field in self.state]
            self.state = type(self.state)(*fields) if hasattr(self.state, "_fields") else tuple(fields)


def cache_among(*groups: Iterable[Any]) -> Cache | None:
    """The cache among the arguments of a call, whatever its name or place; of two, that of self-attention."""
    found = next((value for group in groups for value in group if isinstance(value, Cache)), None)
    return found.self_attention_cache if isinstance(found, EncoderDecoderCache) else found


def slot(cache: Cache, index: int) -> StateSlot:
    """The entry of one layer; what ``transformers`` has put there for a layer of attention gives way while it is empty.

    Raises:
        InvalidInputError: the entry holds keys and values.
    """
    make = getattr(cache, "layer_class_to_replicate", None)
    while len(cache.layers) < index:
        cache.layers.append(StateSlot() if make is None else make())
    if len(cache.layers) == index:
        cache.layers.append(StateSlot())
    entry = cache.layers[index]
    if isinstance(entry, StateSlot):
        return entry
    if getattr(entry, "is_initialized", False):
        raise InvalidInputError(f"Entry {index} of the cache holds keys and values; start with an empty cache.")
    cache.layers[index] = StateSlot()
    return cache.layers[index]


def padding_mask(attention_mask: Tensor | None, n_new: int) -> Tensor | None:
    """``(B, n_new)`` bool, true where there are tokens, or None where there is no padding among the new positions."""
    if attention_mask is None or attention_mask.ndim != 2:
        return None
    fresh = attention_mask[:, -n_new:].bool()
    return None if bool(torch.all(fresh)) else fresh
