"""Building a model with exact weights from a trained one.

    state of each head: e_q, always ;   q' = pi[q] ;   y = W e_q + c + d u

Letters: H = heads, N = ``d_state``, K = maps per head, V = tokens, S = places or states that are told apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers import names_of
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.models import Block, Tagger
from statetrack.training import TrainConfig

IntArray = npt.NDArray[np.int64]

_EXACT = {"d_field": "real", "modulus": "unit", "additive_input": False, "initial_state": "first"}
_CLEAR = 10.0
"""Lead of a route over the others: the other weights of a softmax then add up to next to nothing."""


def exact_model(config: TrainConfig, model: Tagger, **options: Any) -> tuple[TrainConfig, Tagger]:
    """A model of the same shape whose layers are exact, with the trained weights wherever there is still a place for them.

    Args:
        config: of the trained model.
        model: the trained model.
        options: further layer options that change.

    Raises:
        InvalidInputError: a readout that is not linear in the state.
    """
    for layer in model.layers:
        kind = cast(DictionaryLayer, layer).readout.kind
        if kind not in ("affine", "real"):
            raise InvalidInputError(f"Only layers with readout affine or real can be rounded, not {kind}.")
    names = sorted(set(names_of(config.layer)))
    prefixes = [""] if len(names) == 1 else [f"{name}." for name in names]
    changed = {f"{prefix}{key}": value for prefix in prefixes for key, value in {**_EXACT, **options}.items()}
    config = replace(config, model=replace(config.model, layer={**config.model.layer, **changed}))
    with torch.random.fork_rng(devices=[]):
        exact = Tagger(config.layer, model.vocab_size, model.n_classes, config.model)
    trained = model.state_dict()
    fitting = {
        k: trained[k] for k, v in exact.state_dict().items() if k in trained and trained[k].shape == v.shape and "start" not in k
    }
    exact.load_state_dict(fitting, strict=False)
    return config, exact.eval()


@torch.no_grad()
def freeze(layer: DictionaryLayer, head: int, average: Tensor) -> None:
    """Keep a head at place 0, where it reads out its average ``(E,)``."""
    layer.scores[head] = torch.eye(layer.d_state)
    columns(layer, head).zero_()
    columns(layer, head)[:, 0] = average


@torch.no_grad()
def sharpen(layer: DictionaryLayer, head: int) -> None:
    """Scores 1 and 0 for the choices that a head's maps make."""
    dim = -2 if layer.orientation == "column" else -1
    chosen = layer.scores[head].argmax(dim, keepdim=True)
    layer.scores[head] = torch.zeros_like(layer.scores[head]).scatter_(dim, chosen, 1.0)


def columns(layer: DictionaryLayer, head: int) -> Tensor:
    """The columns ``(E, N)`` of an exact layer's readout that read a head; writing to them writes to the layer."""
    weight = cast(nn.Linear, layer.readout.out).weight
    return weight.detach().view(len(weight), -1, layer.d_state)[:, head]


@torch.no_grad()
def layer_inputs(model: Tagger, tokens: IntArray) -> Tensor:
    """What the first layer reads for some tokens, ``(V, E)`` in float64."""
    block = cast(Block, model.blocks[0])
    x = model.embedding.weight[torch.from_numpy(tokens)]
    return (block.norms[0](x) if block.norm_kind == "pre" else x).double()


@torch.no_grad()
def route_by_token(layer: DictionaryLayer, head: int, u: Tensor, routes: Tensor) -> None:
    """Let a head take route ``routes[i]`` for input ``u[i]``, clearly.

    Args:
        layer: the layer.
        head: its head.
        u: ``(V, E)`` linearly independent inputs.
        routes: ``(V,)``.

    Raises:
        InvalidInputError: inputs that are not linearly independent.
    """
    if torch.linalg.matrix_rank(u) < len(u):
        raise InvalidInputError("Routes cannot be told apart: the embeddings of the tokens are not linearly independent.")
    wanted = nn.functional.one_hot(routes, layer.dictionary_size).double() * _CLEAR
    solved = (torch.linalg.pinv(u) @ wanted).T
    layer.router.weight.view(-1, layer.dictionary_size, u.shape[1])[head] = solved.to(layer.router.weight.dtype)
