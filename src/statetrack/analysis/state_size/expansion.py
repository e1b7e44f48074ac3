"""Larger states that change nothing at first: old weights are copied, and new states start where old ones do not see them.

    A' = [[A, A12], [A21, A22]] ,   B' = [B; B2] ,   C' = [C, C2]
    unobservable start   A12 = 0, C2 = 0               (A21, A22, B2 free)     all layers but PD
    unreachable start    A21 = 0, B2 = 0, h2(0) = 0    (A12, A22, C2 free)     PD layers

Never are both B2 and C2 zero, whose gradients would vanish together. The state of an optimiser is carried over, with zeros for
what is new.
"""

from __future__ import annotations

from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from statetrack.analysis.state_size.slots import Layout, Slots, option_size, state_slots
from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer, rebuilt
from statetrack.layers.s5 import S5
from statetrack.models import Tagger
from statetrack.models.blocks import Block
from statetrack.tasks.checks import whole_number

AnyLayer = TypeVar("AnyLayer", bound=Layer)


def expand(layer: AnyLayer, n: int, *, seed: int = 0) -> AnyLayer:
    """A layer with ``n`` more states per head (or channel) and the same outputs but for rounding.

    Args:
        layer: it is left as it is.
        n: number of new states, of the option ``d_state``.
        seed: of the new weights, drawn as for a new layer.

    Raises:
        InvalidInputError: a number below 1, or a layer whose state cannot grow without changing its outputs, with the reason.

    Example:
        >>> from statetrack.layers import make_layer
        >>> layer, x = make_layer("mamba", 4, d_state=3), torch.randn(1, 5, 4)
        >>> larger = expand(layer, 2)
        >>> larger.d_state, bool(torch.allclose(larger(x)[0], layer(x)[0]))
        (5, True)
    """
    n = whole_number("n", n, 1)
    old = state_slots(layer)
    changes = {"d_state": option_size(layer) + n, **({"n_blocks": 1} if isinstance(layer, S5) else {})}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        larger = cast(AnyLayer, rebuilt(layer, **changes))
    new, before, after = state_slots(larger), _tensors(layer), _tensors(larger)
    with torch.no_grad():
        for name, tensor in after.items():
            if name in old:
                _fill(tensor, before[name], old[name], new[name])
            elif tensor.shape == before[name].shape:
                tensor.copy_(before[name])
            else:
                raise InvalidInputError(f"{name} of {type(layer).__name__} goes with its state, but its layout does not say how.")
    return larger


def expand_model(model: Tagger, n: int, optimizer: torch.optim.Optimizer | None = None, *, seed: int = 0) -> None:
    """Give every layer of a model that can grow ``n`` more states, in place.

    Args:
        model: its blocks get new layers.
        n: number of new states.
        optimizer: one over the model's parameters, whose state is carried over.
        seed: of the new weights; deeper layers take the following ones.

    Raises:
        InvalidInputError: a number below 1, or no layer that can grow.
    """
    reasons, grown = [], 0
    for i, module in enumerate(model.blocks):
        block = cast(Block, module)
        try:
            larger = expand(block.layer, n, seed=seed + i)
        except InvalidInputError as error:
            reasons.append(str(error))
            continue
        if optimizer is not None:
            _carry(optimizer, block.layer, larger)
        block.layer = larger
        grown += 1
    if not grown:
        raise InvalidInputError(reasons[0])


def _tensors(layer: Layer) -> dict[str, Tensor]:
    """Parameters and stored or computed buffers."""
    return {**dict(layer.named_parameters()), **{n: b for n, b in layer.named_buffers() if n not in ("index", "value")}}


def _fill(target: Tensor, source: Tensor, old: Slots, new: Slots) -> None:
    """Write the old entries to their places, and zeros where new ones must not be seen."""
    places, fresh = _places(target, old, new)
    if new.silent is not None:
        for dim, names in enumerate(new.names):
            if names is not None:
                quiet = [i for i in fresh[dim] if new.silent(names[i])]
                target.index_fill_(dim, torch.tensor(quiet, dtype=torch.long), 0)
    if new.reads is not None:
        index = [torch.tensor(fresh[dim] if dim == new.reads else place) for dim, place in enumerate(places)]
        target[torch.meshgrid(*index, indexing="ij")] = 0
    if new.shut:
        rows, columns = torch.tensor(fresh[-2]), torch.tensor(places[-1])
        least = source.amin(-2)
        target[..., rows.unsqueeze(1), columns] = least.unsqueeze(-2).expand(*least.shape[:-1], len(rows), len(columns)).clone()
    target[_grid(places)] = source.to(target.dtype)


def _places(target: Tensor, old: Slots, new: Slots) -> tuple[list[list[int]], list[list[int]]]:
    """For each dimension, where the old indices went and which indices are new."""
    places: list[list[int]] = []
    fresh: list[list[int]] = []
    for dim, (before, after) in enumerate(zip(old.names, new.names, strict=True)):
        if before is None or after is None:
            places.append(list(range(target.shape[dim])))
            fresh.append([])
            continue
        where = {name: i for i, name in enumerate(after)}
        taken = [where[name] for name in before]
        places.append(taken)
        fresh.append(sorted(set(range(len(after))) - set(taken)))
    return places, fresh


def _grid(places: list[list[int]]) -> tuple[Tensor, ...]:
    return torch.meshgrid(*(torch.tensor(place) for place in places), indexing="ij")


def _carry(optimizer: torch.optim.Optimizer, before: Layer, after: Layer) -> None:
    """Put the parameters of a larger layer in the place of those of a smaller one, with their state."""
    old_slots, new_slots = state_slots(before), state_slots(after)
    swaps: dict[int, tuple[nn.Parameter, str]] = {
        id(parameter): (dict(after.named_parameters())[name], name) for name, parameter in before.named_parameters()
    }
    for group in optimizer.param_groups:
        for i, parameter in enumerate(group["params"]):
            if id(parameter) in swaps:
                larger, name = swaps[id(parameter)]
                group["params"][i] = larger
                state = optimizer.state.pop(parameter, None)
                if state is not None:
                    optimizer.state[larger] = _carried(state, parameter, larger, name, old_slots, new_slots)


def _carried(
    state: dict[str, object], before: nn.Parameter, after: nn.Parameter, name: str, old: Layout, new: Layout
) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in state.items():
        if isinstance(value, Tensor) and value.shape == before.shape and name in old:
            grown = torch.zeros_like(after)
            grown[_grid(_places(after, old[name], new[name])[0])] = value
            found[key] = grown
        else:
            found[key] = value
    return found
