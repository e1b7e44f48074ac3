"""One-hot transitions picked from a dictionary by a route per token: the form of Flash PD-SSM (arXiv 2605.19150)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from statetrack.structures.one_hot import ColumnOneHot, RowOneHot
from statetrack.structures.orientation import Orientation, one_hot_class


@dataclass(frozen=True, eq=False)
class RoutedOneHot:
    """One-hot matrices whose maps are stored once per dictionary entry instead of once per token.

    A compressed spelling of ``expand()`` that scans take directly. ``selection`` and ``routing`` are the same choices as one-hot
    floats; scans read no value from them, they only send gradients there (straight through the choices).

    Attributes:
        dictionary: ``(H, K, N)`` integer maps.
        route: ``(B, L, H)`` integer, which map each token takes.
        value: ``(B, L, H, N)`` real or complex diagonal.
        orientation: ``"column"`` (``P diag(D)``) or ``"row"`` (``diag(D) P``).
        selection: ``(H, K, N, N)`` one-hot form of ``dictionary``, or None where no choice is credited.
        routing: ``(B, L, H, K)`` one-hot form of ``route``, or None where the route is no choice that could be credited.
        full_credit: send gradients to every alternative, or only to the chosen ones.
    """

    dictionary: Tensor
    route: Tensor
    value: Tensor
    orientation: Orientation = "column"
    selection: Tensor | None = None
    routing: Tensor | None = None
    full_credit: bool = True

    @property
    def state_size(self) -> int:
        """``N``."""
        return self.value.shape[-1]

    @property
    def values(self) -> Tensor:
        """The diagonal entries."""
        return self.value

    def __getitem__(self, index: Any) -> RoutedOneHot:
        """Index batch and length, such as ``[:, 3:7]``; the head dimension stays."""
        routing = None if self.routing is None else self.routing[index]
        return replace(self, route=self.route[index], value=self.value[index], routing=routing)

    def expand(self) -> ColumnOneHot | RowOneHot:
        """The same matrices with a map for every token."""
        heads = torch.arange(self.dictionary.shape[0], device=self.dictionary.device)
        return one_hot_class(self.orientation)(self.dictionary[heads, self.route.long()].long(), self.value)
