"""One layer of a model under every tool: spectra, influence against distance, and use of the state.

What a layer's structure does not allow is left out, with the reason in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from statetrack.analysis.recency import InfluenceCurve, by_distance, influence
from statetrack.analysis.recency.unrolled import has_states, unroll
from statetrack.analysis.spectra import Spectrum, spectrum, word_spectrum
from statetrack.analysis.state_use import EffectiveSize, StateUse, effective_state_size, state_use
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer

T = TypeVar("T")

_OUTPUTS = 8
"""Positions whose influences are looked at."""
_ENTRIES = 2e7
"""Numbers that the exact state size may hold at once: longer inputs are cut."""


@dataclass(frozen=True)
class LayerView:
    """What the tools say about a layer on some words.

    Attributes:
        name: its registered name.
        single: eigenvalues of every transition ``(B, L, H, N)``.
        word: eigenvalues of the products along the first tokens of the words ``(B, H, N)``.
        influence: of its inputs on its outputs, against distance.
        use: of its state.
        effective: effective state size.
        effective_length: tokens that the effective size was measured on.
        missing: what could not be measured, and why.
    """

    name: str
    single: Spectrum | None = None
    word: Spectrum | None = None
    influence: InfluenceCurve | None = None
    use: StateUse | None = None
    effective: EffectiveSize | None = None
    effective_length: int = 0
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def effective_size(self) -> float | None:
        """Mean over rows and heads of the largest entropy ESS at any cut; None where it was not measured."""
        if self.effective is None or not self.effective.sigma.shape[2]:
            return None
        return float(self.effective.entropy.amax(-1).mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        parts = {"single": self.single, "word": self.word, "influence": self.influence, "use": self.use}
        plain = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        effective = None if self.effective is None else {**self.effective.to_dict(), "tokens": self.effective_length}
        return {"layer": self.name, **plain, "effective": effective, "missing": self.missing}


def layer_view(name: str, layer: Layer, x: Tensor, *, product: int = 16) -> LayerView:
    """Look at a layer on inputs ``x (B, L, d_model)``.

    Args:
        name: of the layer.
        layer: any layer.
        x: what it is given in its model.
        product: tokens whose transitions are multiplied.
    """
    missing: dict[str, str] = {}

    def tried(what: str, measure: Callable[[], T]) -> T | None:
        try:
            return measure()
        except InvalidInputError as error:
            missing[what] = str(error)
            return None

    length = x.shape[1]
    positions = sorted({round(t) for t in torch.linspace(length // 2, length - 1, _OUTPUTS).tolist()})
    single = tried("spectra", lambda: spectrum(layer, x))
    word = None if single is None else word_spectrum(layer, x, last=min(product, length))
    curve = tried("influence", lambda: by_distance(influence(layer, x, positions=positions), positions=positions))
    use = tried("state use", lambda: state_use(layer, x))
    size = tried("effective size", lambda: _affordable(layer, x))
    effective = None if size is None or size < 2 else tried("effective size", lambda: effective_state_size(layer, x[:1, :size]))
    if size is not None and size < 2:
        missing["effective size"] = "its state is too large to be measured exactly."
    return LayerView(name, single, word, curve, use, effective, size or 0, missing)


def _affordable(layer: Layer, x: Tensor) -> int:
    """Tokens of one word on which the effective size is measured within the memory allowed."""
    if not has_states(layer):
        return min(x.shape[1], max(2, int((_ENTRIES**0.5) // x.shape[2])))
    h = unroll(layer, x[:1, :1]).h  # (1, 2, H, N, V)
    per_token = h[0, 0].numel() * (x.shape[2] * (2 if h.is_complex() else 1) + h.shape[3])
    return int(min(x.shape[1], _ENTRIES // per_token))
