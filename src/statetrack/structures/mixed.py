"""One-hot transitions read off a soft mixture of dictionary entries: the form of PD-SSM (arXiv 2509.22284)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from statetrack.structures.one_hot import ColumnOneHot, RowOneHot
from statetrack.structures.orientation import Orientation, choice_dim, one_hot_class


@dataclass(frozen=True, eq=False)
class MixedOneHot:
    """One-hot matrices ``hardmax(sum_k mix_k scores_k)``, taken per column or per row.

    A compressed spelling of ``expand()`` that scans take directly and differentiate straight through: the backward pass
    replaces the hardmax by a softmax at temperature 1.

    Attributes:
        scores: ``(H, K, N, N)`` real, trained, indexed ``[k, row, column]``.
        mix: ``(B, L, H, K)`` real mixture weights.
        value: ``(B, L, H, N)`` real or complex diagonal.
        orientation: ``"column"`` (``P diag(D)``) or ``"row"`` (``diag(D) P``).
    """

    scores: Tensor
    mix: Tensor
    value: Tensor
    orientation: Orientation = "column"

    @property
    def state_size(self) -> int:
        """``N``."""
        return self.value.shape[-1]

    @property
    def values(self) -> Tensor:
        """The diagonal entries."""
        return self.value

    def __getitem__(self, index: Any) -> MixedOneHot:
        """Index batch and length, such as ``[:, 3:7]``; the head dimension stays."""
        return replace(self, mix=self.mix[index], value=self.value[index])

    def expand(self) -> ColumnOneHot | RowOneHot:
        """The same matrices as maps. Forms the ``(B, L, H, N, N)`` mixture: for inspection, not for training."""
        index = (self.mix.unsqueeze(-2) @ self.scores.flatten(-2)).squeeze(-2).unflatten(-1, self.scores.shape[-2:])
        return one_hot_class(self.orientation)(index.argmax(choice_dim(self.orientation)), self.value)
