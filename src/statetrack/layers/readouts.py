"""Readouts: from complex or real states ``(B, L, H, N)`` and the layer's input ``u (B, L, E)`` to the output ``(B, L, E)``.

Source: PD-SSM (arXiv 2509.22284) for ``affine``, ``real`` and ``mlp``; ``gated`` follows Flash PD-SSM (arXiv 2605.19150).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from statetrack.layers.diagonal_generators import checked
from statetrack.scan.parts import split_parts

Readout = Literal["affine", "real", "mlp", "gated"]


def parts(states: Tensor) -> Tensor:
    """``(B, L, H N)`` or, for complex states, real and imaginary parts ``(B, L, 2 H N)``."""
    if not states.is_complex():
        return states.flatten(-2)
    return split_parts(states.flatten(-2))


class StateReadout(nn.Module):
    """One of the published readouts, with the constant skip ``d * u``.

    Args:
        d_model: E.
        n_heads: H.
        d_state: N.
        kind: ``"affine"``: ``W [Re x; Im x] + c``; ``"real"``: ``Re(C x)``; ``"mlp"``: two layers with GELU on ``[Re x; Im
            x]``; ``"gated"``: ``W (RMSNorm(Re(C(u) * x)) * silu(gate(u)))``, normalised per head.
        is_complex: whether states are complex.
        skip: add ``d * u`` with a trained ``d (E,)``.
        hidden: hidden width of ``"mlp"`` as a multiple of E.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_state: int,
        *,
        kind: Readout = "affine",
        is_complex: bool = True,
        skip: bool = True,
        hidden: int = 2,
    ) -> None:
        super().__init__()
        self.kind = checked("readout", kind, Readout)
        size = n_heads * d_state
        features = 2 * size if is_complex else size
        self.out: nn.Module
        if kind == "gated":
            self.selector = nn.Linear(d_model, features, bias=False)
            self.gate = nn.Linear(d_model, size, bias=False)
            self.head_norm = nn.RMSNorm(d_state)
            self.out = nn.Linear(size, d_model, bias=False)
        elif kind == "mlp":
            self.out = nn.Sequential(nn.Linear(features, hidden * d_model), nn.GELU(), nn.Linear(hidden * d_model, d_model))
        else:
            linear = nn.Linear(features, d_model, bias=kind == "affine")
            if kind == "real":
                nn.init.normal_(linear.weight, std=1 / math.sqrt(size))
            self.out = linear
        self.skip = nn.Parameter(torch.randn(d_model) / math.sqrt(d_model)) if skip else None

    def forward(self, states: Tensor, u: Tensor) -> Tensor:
        if self.kind == "gated":
            weight = self.selector(u)
            # [Re; Im] of C against [Re; -Im] of x: Re(C * x) without forming a complex C.
            features = parts(states.conj().resolve_conj() if states.is_complex() else states)
            mixed = (weight.to(features.dtype) * features).unflatten(-1, (-1, *states.shape[-2:])).sum(-3)
            y = self.out(
                self.head_norm(mixed.to(self.head_norm.weight.dtype)).flatten(-2).to(u.dtype) * nn.functional.silu(self.gate(u))
            )
        else:
            y = self.out(parts(states).to(u.dtype))
        return y if self.skip is None else torch.addcmul(y, self.skip, u)
