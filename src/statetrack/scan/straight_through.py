"""Hard choices that pass gradients: forward one-hot, backward softmax at a temperature."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack._typing import Float, Int
from statetrack.structures import MixedOneHot, RoutedOneHot
from statetrack.structures.dense import Dense
from statetrack.structures.orientation import choice_dim


def straight_through(
    scores: Float[Tensor, "*shape"], dim: int, temperature: float = 1.0, index: Int[Tensor, "*chosen"] | None = None
) -> Float[Tensor, "*shape"]:
    """One-hot of the largest score along ``dim``; its gradient is that of ``softmax(scores / temperature)``.

    ``index`` is ``scores.argmax(dim)``, for callers that have it.

    Slope annealing lowers ``temperature`` during training. Source: PD-SSM (arXiv 2509.22284), Flash PD-SSM (arXiv 2605.19150).
    """
    soft = (scores / temperature).softmax(dim)
    index = scores.argmax(dim) if index is None else index
    hard = torch.zeros_like(soft).scatter_(dim, index.unsqueeze(dim), 1.0)
    return hard + (soft - soft.detach())


def dense_selection(transitions: RoutedOneHot | MixedOneHot) -> Dense:
    """The transitions as differentiable dense matrices ``(B, L, H, N, N)``: the textbook form of both layers, for small sizes."""
    dim = choice_dim(transitions.orientation)
    if isinstance(transitions, MixedOneHot):
        scores = (transitions.mix.unsqueeze(-2) @ transitions.scores.flatten(-2)).squeeze(-2)
        selection = straight_through(scores.unflatten(-1, transitions.scores.shape[-2:]), dim)
    else:
        maps, routing = chosen(transitions)
        selection = (routing.unsqueeze(-2) @ maps.flatten(-2)).squeeze(-2).unflatten(-1, maps.shape[-2:])
    value = transitions.value
    return Dense(selection * value.unsqueeze(dim))


def chosen(transitions: RoutedOneHot) -> tuple[Tensor, Tensor]:
    """``selection (H, K, N, N)`` and ``routing (B, L, H, K)`` with gradients only where credit is due."""
    n, n_entries = transitions.state_size, transitions.dictionary.shape[1]
    real = transitions.value.real.dtype
    dim = choice_dim(transitions.orientation)
    maps = torch.nn.functional.one_hot(transitions.dictionary.long(), n).to(real)
    maps = maps.mT if dim == -2 else maps
    routing = torch.nn.functional.one_hot(transitions.route.long(), n_entries).to(real)
    if transitions.selection is None:
        return maps, routing
    credited = routing if transitions.routing is None else transitions.routing
    if transitions.full_credit:
        return transitions.selection, credited
    return transitions.selection * maps, credited * routing


def routed_lift(transitions: RoutedOneHot, v: Tensor) -> Tensor:
    """Zeros ``(B, L, H, N)`` that credit the routed choices with the state ``v`` they were applied to."""
    maps, routing = chosen(transitions)
    moved = torch.einsum("hkij,blhj->blhki", maps.to(v.dtype), v)
    picked = (routing.unsqueeze(-1) * moved).sum(-2)
    return picked - picked.detach()
