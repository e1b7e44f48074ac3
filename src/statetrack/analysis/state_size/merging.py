"""Fewer states for PD layers, by steps that keep them PD: drop what cannot be reached, merge what nothing tells apart.

    g = Q h ;   P'[q(i)] = q(P[i]) ,   D'[q(i)] = D[i] ,   C'[:, q(i)] = C[:, i] ,   (B')[J] = sum over i in J of B[i]

Letters: H = heads, N = states per head, K = maps, q = class of a state, Q = its matrix. Both steps are exact; with a tolerance,
states whose readout and diagonal differ a little are merged too, which is approximate. A mixture of matrices (PD-SSM) does not
stay one when states are merged: of it, states can only be dropped.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from statetrack.analysis.state_size.partitions import IntArray, alike, coarsest, reachable
from statetrack.errors import InvalidInputError
from statetrack.layers.base import rebuilt
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.layers.flash_pd_ssm import FlashPDSSM
from statetrack.structures import ColumnOneHot
from statetrack.structures.orientation import choice_dim

Classes = list[list[list[int]]]
"""For each head, the states of every class; states in none are dropped."""


def merged(layer: DictionaryLayer, *, tolerance: float = 0.0, x: Tensor | None = None) -> DictionaryLayer:
    """The layer with the states of every head trimmed and merged.

    Args:
        layer: in column orientation, with a readout that is linear in the state or an MLP of it.
        tolerance: largest difference of a readout or diagonal weight between states that are merged.
        x: ``(B, L, d_model)``, inputs that select all maps which count; None means all maps of a dictionary.

    Raises:
        InvalidInputError: a layer that does not fit.
    """
    _check(layer, tolerance)
    heads: Classes = []
    for head in range(layer.n_heads):
        maps = _maps(layer, head, x)
        kept = reachable(maps, _support(layer, head))
        if isinstance(layer, FlashPDSSM):
            place = np.full(layer.d_state, -1)
            place[kept] = np.arange(len(kept))
            labels = alike(_features(layer, head)[kept], tolerance)
            classes = coarsest(place[maps[:, kept]], labels)
            heads.append([kept[classes == j].tolist() for j in range(classes.max() + 1)])
        else:
            heads.append([[int(state)] for state in kept])
    return quotient(layer, heads)


@torch.no_grad()
def quotient(layer: DictionaryLayer, heads: Classes) -> DictionaryLayer:
    """The layer with a state for every class of every head; heads with fewer classes get idle states."""
    size, old = max(len(classes) for classes in heads), layer.d_state
    smaller = rebuilt(layer, d_state=size, **_hidden(layer, size))
    assert isinstance(smaller, DictionaryLayer)
    smaller.load_state_dict({**smaller.state_dict(), **_unchanged(layer, smaller)})
    smaller.scores.zero_()
    smaller.scores.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    for head, classes in enumerate(heads):
        for j, column in enumerate(classes):
            smaller.scores[head, :, :, j] = layer.scores.min()
            for i, row in enumerate(classes):
                smaller.scores[head, :, i, j] = layer.scores[head][:, row, column[0]].amax(1)
    sums = torch.zeros(len(heads), size, old, dtype=torch.float64)
    first = torch.zeros_like(sums)
    for head, classes in enumerate(heads):
        for j, states in enumerate(classes):
            sums[head, j, states] = 1.0
            first[head, j, states[0]] = 1.0
    gather, pick = torch.block_diag(*sums), torch.block_diag(*first)  # (H M, H N)
    parts = 2 if layer.is_complex else 1
    if layer.input is not None and smaller.input is not None:
        _set(smaller.input.weight, _per_part(gather, layer.input.weight, parts))
    start = torch.einsum("hmn,hnp->hmp", sums, layer.start.double())
    smaller.start.copy_(start)
    new, before = _reads(smaller), _reads(layer)
    _set(new.weight, _per_part(pick, before.weight.mT, parts).mT)
    _set_diagonal(smaller, layer, pick)
    return smaller


def _check(layer: DictionaryLayer, tolerance: float) -> None:
    name = type(layer).__name__
    if layer.orientation != "column":
        raise InvalidInputError(
            f"Only states of column-one-hot layers can be merged; this {name} has orientation={layer.orientation!r}."
        )
    if layer.readout.kind == "gated":
        raise InvalidInputError(
            f"This {name} has readout='gated', which normalises over the state: fewer states would change it."
        )
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise InvalidInputError(f"tolerance must not be negative, got {tolerance}.")


@torch.no_grad()
def _maps(layer: DictionaryLayer, head: int, x: Tensor | None) -> IntArray:
    """Distinct maps ``(K, N)`` of a head."""
    if x is None:
        if not isinstance(layer, FlashPDSSM):
            raise InvalidInputError(
                f"{type(layer).__name__} has a map for every input: give inputs x that select all maps which count."
            )
        found = layer.scores[head].argmax(choice_dim(layer.orientation))
    else:
        transitions = layer.transitions(x.to(layer.scores.dtype))
        assert isinstance(transitions, ColumnOneHot)
        found = transitions.index[:, :, head].flatten(0, 1)
    return found.unique(dim=0).numpy().astype(np.int64)


@torch.no_grad()
def _support(layer: DictionaryLayer, head: int) -> np.ndarray:
    """States that the start or the input reaches, ``(N,)`` bool."""
    found = (layer.start[head] != 0).any(-1)
    if layer.input is not None:
        rows = layer.input.weight.unflatten(0, (-1, layer.n_heads, layer.d_state))[:, head]
        found = found | (rows != 0).any(-1).any(0)
    return found.numpy()


@torch.no_grad()
def _features(layer: DictionaryLayer, head: int) -> np.ndarray:
    """What tells states of a head apart, ``(N, F)``: how each is read, and how its diagonal is computed."""
    n, heads = layer.d_state, layer.n_heads
    columns = _reads(layer).weight.unflatten(1, (-1, heads, n))[:, :, head].flatten(0, 1).mT
    features = [columns]
    for linear, width in _diagonal_rows(layer):
        rows = torch.cat([linear.weight, linear.bias.unsqueeze(1)], dim=1)
        features.append(rows.unflatten(0, (heads, n, width))[head].flatten(1))
    if hasattr(layer.diagonal, "a_log"):
        features.append(layer.diagonal.a_log.view(heads, n)[head].unsqueeze(1))
    return torch.cat([each.double() for each in features], dim=1).numpy()


def _reads(layer: DictionaryLayer) -> nn.Linear:
    """The linear map that reads the state."""
    out = layer.readout.out
    linear = out[0] if isinstance(out, nn.Sequential) else out
    assert isinstance(linear, nn.Linear)
    return linear


def _diagonal_rows(layer: DictionaryLayer) -> list[tuple[nn.Linear, int]]:
    """The last linear maps of the networks of the diagonal, with the rows that each state has."""
    found = []
    for network, width in ((layer.diagonal.magnitude, 1), (layer.diagonal.phase, layer.diagonal.levels or 1)):
        if network is not None:
            last = network[-1] if isinstance(network, nn.Sequential) else network
            assert isinstance(last, nn.Linear)
            found.append((last, width))
    return found


def _hidden(layer: DictionaryLayer, size: int) -> dict[str, int]:
    """The option that leaves room for the hidden units of the diagonal's networks, whose number goes with the states."""
    d_hidden = int(layer.options.get("d_hidden", 2))
    return {"d_hidden": -(-d_hidden * layer.d_state // size)} if layer.diagonal.kind == "mlp" else {}


def _unchanged(old: nn.Module, new: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that do not depend on the number of states."""
    shapes = {name: tensor.shape for name, tensor in new.state_dict().items()}
    return {name: tensor for name, tensor in old.state_dict().items() if shapes.get(name) == tensor.shape}


def _set_diagonal(new: DictionaryLayer, old: DictionaryLayer, pick: Tensor) -> None:
    for (target, width), (source, _) in zip(_diagonal_rows(new), _diagonal_rows(old), strict=True):
        rows = torch.kron(pick, torch.eye(width, dtype=pick.dtype))
        hidden = source.weight.shape[1]
        target.weight.zero_()
        target.weight[:, :hidden] = (rows @ source.weight.double()).to(target.weight.dtype)
        _set(target.bias, rows @ source.bias.double())
    for target_net, source_net in ((new.diagonal.magnitude, old.diagonal.magnitude), (new.diagonal.phase, old.diagonal.phase)):
        if isinstance(target_net, nn.Sequential) and isinstance(source_net, nn.Sequential):
            for parameter in ("weight", "bias"):
                kept = getattr(source_net[0], parameter)
                getattr(target_net[0], parameter).zero_()[: len(kept)] = kept
    if hasattr(old.diagonal, "a_log"):
        _set(new.diagonal.a_log, pick @ old.diagonal.a_log.double())


def _per_part(matrix: Tensor, rows: Tensor, parts: int) -> Tensor:
    """A matrix applied to real and to imaginary parts, which lie one behind the other in ``rows``."""
    return torch.cat([matrix @ part for part in rows.double().chunk(parts)])


def _set(target: Tensor, value: Tensor) -> None:
    target.copy_(value)
