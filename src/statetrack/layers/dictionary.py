"""What PD-SSM and Flash PD-SSM share: a dictionary of K trained matrices ``M_k`` per head, and what each token scores them by.

    s_t = S u_t

Letters: E = ``d_model``, H = heads, N = ``d_state`` per head, K = ``dictionary_size``. Sources: PD-SSM (arXiv 2509.22284), Flash
PD-SSM (arXiv 2605.19150).
"""

from __future__ import annotations

import math
from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import at_least_float32
from statetrack.layers.selective import SelectiveLayer, SelectiveOptions
from statetrack.structures import Orientation

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


class DictionaryOptions(SelectiveOptions, total=False):
    """The options of ``DictionaryLayer``."""

    dictionary_size: int
    orientation: Orientation
    dictionary_init: DictionaryInit
    dictionary_scale: float


class DictionaryLayer(SelectiveLayer):
    """A selective layer with a dictionary; further options are those of ``SelectiveLayer``.

    Args:
        d_model: E, width of input and output.
        dictionary_size: K, matrices per head.
        orientation: ``"column"`` (``P diag(D)``, can merge states, as in the papers) or ``"row"`` (``diag(D) P``, as in the
            authors' state-tracking code of PD-SSM).
        dictionary_init: ``"normal"``, or normal around random permutations or the identity.
        dictionary_scale: weight of the permutations or the identity against the noise.
    """

    @inherits_options(SelectiveLayer)
    def __init__(
        self,
        d_model: int,
        *,
        dictionary_size: int = 8,
        orientation: Orientation = "column",
        dictionary_init: DictionaryInit = "normal",
        dictionary_scale: float = 2.0,
        **shared: Unpack[SelectiveOptions],
    ) -> None:
        super().__init__(d_model, **shared)
        checked("orientation", orientation, Orientation)
        self.orientation, self.dictionary_size = orientation, dictionary_size
        scores = initial_dictionary(self.n_heads, dictionary_size, self.d_state, dictionary_init, dictionary_scale)
        self.scores = nn.Parameter(scores)
        self.router = nn.Linear(d_model, self.n_heads * dictionary_size, bias=False)

    def _logits(self, u: Tensor) -> Tensor:
        """How each token scores the dictionary, ``(..., H, K)``."""
        return at_least_float32(self.router(u)).unflatten(-1, (self.n_heads, self.dictionary_size))
