"""How much of its state a layer uses: spectra of the states that a run visits, and how sparse they are.

    lambda = sigma(X)^2 / n ,   X = states (n, N), centred

Letters: B = rows, L = tokens, H = heads, N = state size in real numbers (a complex entry counts as two), n = samples: every token
of every row, and every column of a matrix state. The scale of the states does not enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import has_states, in_float64, unroll
from statetrack.analysis.state_use.functionals import (
    energy_rank,
    entropy_rank,
    hoyer_sparsity,
    numerical_rank,
    participation_ratio,
    small_share,
    spectral_entropy,
)
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer


@dataclass(frozen=True)
class StateUse:
    """Numbers per head, ``(H,)`` each.

    Attributes:
        eigenvalues: ``(H, N)`` of the covariance, largest first.
        participation: participation ratio of the eigenvalues.
        entropy_rank: of the eigenvalues.
        spectral_entropy: of the eigenvalues, in [0, 1].
        energy_rank: eigenvalues that hold 95 % of the variance.
        rank: eigenvalues above ``rtol`` of the largest.
        hoyer: mean Hoyer sparsity of single states.
        small: mean share of a state's entries below a tenth of its root mean square.
        samples: n.
        rtol: tolerance of the rank.
        of: ``"states"``, or ``"outputs"`` for layers whose cache grows.
    """

    eigenvalues: Tensor
    participation: Tensor
    entropy_rank: Tensor
    spectral_entropy: Tensor
    energy_rank: Tensor
    rank: Tensor
    hoyer: Tensor
    small: Tensor
    samples: int
    rtol: float
    of: str

    @property
    def size(self) -> int:
        """N."""
        return self.eigenvalues.shape[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: means over heads."""
        names = ("participation", "entropy_rank", "spectral_entropy", "energy_rank", "rank", "hoyer", "small")
        means = {name: float(getattr(self, name).double().mean()) for name in names}
        return {"of": self.of, "size": self.size, "heads": len(self.rank), "samples": self.samples, "rtol": self.rtol, **means}


def state_use(layer: Layer, x: Tensor, *, centred: bool = True, rtol: float = 1e-6) -> StateUse:
    """Which part of its state space a layer visits on an input, in float64.

    Layers whose cache grows with every token (attention) have no state of fixed size: their outputs are measured instead.

    Args:
        layer: any layer.
        x: ``(B, L, d_model)``; ten samples per dimension keep the participation ratio from being biased low.
        centred: take the mean state away first.
        rtol: tolerance of the rank, relative to the largest eigenvalue.

    Raises:
        InvalidInputError: an ``x`` that does not fit.

    Example:
        >>> from statetrack.layers import make_layer
        >>> state_use(make_layer("lru", 4, d_state=3), torch.randn(2, 40, 4)).size
        6
    """
    return covariance_use(visited_states(layer, x), centred=centred, rtol=rtol, of="states" if has_states(layer) else "outputs")


def visited_states(layer: Layer, x: Tensor) -> Tensor:
    """States after every token, ``(H, n, N)`` in real numbers; outputs ``(1, n, E)`` for layers whose cache grows."""
    if not has_states(layer):
        if x.ndim != 3 or 0 in x.shape:
            raise InvalidInputError(f"x needs shape (B, L, {layer.d_model}) with at least one token, got {tuple(x.shape)}.")
        with torch.no_grad():
            return in_float64(layer)(x.detach().double())[0].flatten(0, 1).unsqueeze(0)
    h = unroll(layer, x).h[:, 1:]  # (B, L, H, N, V)
    h = torch.cat([h.real, h.imag], dim=3) if h.is_complex() else h
    return h.permute(2, 0, 1, 4, 3).flatten(1, 3)


def covariance_use(states: Tensor, *, centred: bool = True, rtol: float = 1e-6, of: str = "states") -> StateUse:
    """The numbers of ``state_use`` for states ``(H, n, N)``."""
    if states.ndim != 3 or 0 in states.shape:
        raise InvalidInputError(f"states need shape (H, n, N) with at least one sample, got {tuple(states.shape)}.")
    x = states - states.mean(1, keepdim=True) if centred else states
    values = torch.linalg.svdvals(x).square() / states.shape[1]
    values = torch.nn.functional.pad(values, (0, states.shape[2] - values.shape[-1]))
    return StateUse(
        eigenvalues=values,
        participation=participation_ratio(values),
        entropy_rank=entropy_rank(values),
        spectral_entropy=spectral_entropy(values),
        energy_rank=energy_rank(values.sqrt()),
        rank=numerical_rank(values, rtol=rtol),
        hoyer=hoyer_sparsity(states).mean(1),
        small=small_share(states).mean(1),
        samples=states.shape[1],
        rtol=rtol,
        of=of,
    )
