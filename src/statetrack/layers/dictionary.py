"""Initial dictionaries of selection scores, shared by PD-SSM and Flash PD-SSM."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked

DictionaryInit = Literal["normal", "permutation", "identity"]


def initial_dictionary(n_heads: int, size: int, d_state: int, kind: DictionaryInit, scale: float) -> Tensor:
    """``(H, K, N, N)`` scores: normal with deviation ``1 / sqrt(N)``, on top of ``scale`` times a random permutation or the
    identity.

    Products of random maps merge all states within about N steps, after which no gradient tells them apart. Permutations never
    merge any, so what a layer starts with can be told apart at every length; ``scale`` sets how long that lasts in training.

    Raises:
        InvalidInputError: a size below 1 or an unknown kind.
    """
    checked("dictionary_init", kind, DictionaryInit)
    if size < 1:
        raise InvalidInputError(f"dictionary_size must be at least 1; got {size}.")
    scores = torch.randn(n_heads, size, d_state, d_state) / math.sqrt(d_state)
    if kind == "normal":
        return scores
    permutations = torch.rand(n_heads, size, d_state).argsort(-1)
    if kind == "identity":
        permutations = torch.arange(d_state).expand(n_heads, size, d_state)
    return scores + scale * torch.nn.functional.one_hot(permutations, d_state)
