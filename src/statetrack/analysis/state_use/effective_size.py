"""Effective state size of a layer on an input: how many of its state variables carry something from the past to the future.

    ESS_i = rank H_i ;   entropy ESS_i = exp(entropy of sigma(H_i) / sum) ;   utilisation_i = ESS_i / TSS

Letters: B = rows, L = tokens, H = heads, N = state size, TSS = total state size of a head in real numbers (a complex entry counts
as two). ``H_i`` maps what was written before token i to the layer's outputs from i on; columns of a matrix state share one N. It
is taken for the realised writes, with norms and gates held (``analysis.recency``), so it bounds from below what other inputs may
use. Layers that are not linear in their state take the derivative of the state by the token in place of the write; attention,
whose cache grows, the dense map ``(dy_t / dx_s) x_s``. Source: "Quantifying Memory Utilization with Effective State-Size" (arXiv
2504.19561).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from statetrack.analysis.recency.operator import operator
from statetrack.analysis.recency.readouts import readouts
from statetrack.analysis.recency.unrolled import Unrolled, has_states, unroll
from statetrack.analysis.state_use.functionals import entropy_rank
from statetrack.analysis.state_use.two_sweeps import from_reads
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.layers.repetition import every_token_alone

Verdict = Literal["saturated", "in between", "collapsed"]


@dataclass(frozen=True)
class EffectiveSize:
    """Singular values at every cut between tokens.

    Attributes:
        sigma: ``(B, H, L - 1, n)``, of ``H_i`` for ``i = 1 .. L - 1``, largest first; ``H = 1`` for attention.
        total: TSS per head in real numbers; None for a cache that grows.
        rtol: what counts, relative to the largest singular value at any cut of the same row and head.
    """

    sigma: Tensor
    total: int | None
    rtol: float

    @property
    def rank(self) -> Tensor:
        """``(B, H, L - 1)``, singular values above the tolerance."""
        top = self.sigma.amax((-2, -1), keepdim=True)
        return (self.sigma > self.rtol * top).sum(-1)

    @property
    def entropy(self) -> Tensor:
        """``(B, H, L - 1)``, ``exp`` of the entropy of the singular values; 0 where nothing passes."""
        return entropy_rank(self.sigma)

    @property
    def interior(self) -> slice:
        """Cuts with at least TSS tokens on both sides; closer to the ends the sequence itself bounds the rank. All, if none
        is."""
        cuts, n = self.sigma.shape[2], self.total or 0
        return slice(n - 1, cuts - n + 1) if cuts >= 2 * n > 0 else slice(0, cuts)

    def utilisation(self, kind: str = "entropy") -> float:
        """Mean of ``ESS / TSS`` over rows, heads ("average ESS") and interior cuts, by ``"entropy"`` or ``"rank"``.

        NaN without TSS.
        """
        if self.total is None or not self.sigma.shape[2]:
            return float("nan")
        size = self.entropy if kind == "entropy" else self.rank.double()
        return float(size[:, :, self.interior].mean() / self.total)

    def verdict(self, *, saturated: float = 0.9, collapsed: float = 0.1) -> Verdict | None:
        """Whether the state looks too small or unused, by the mean rank; no thresholds are published, and these are ours.

        Args:
            saturated: share of TSS from which on the state counts as full.
            collapsed: share below which it counts as unused.

        Raises:
            InvalidInputError: thresholds out of order.
        """
        if not 0 <= collapsed < saturated <= 1:
            raise InvalidInputError(f"need 0 <= collapsed < saturated <= 1; got {collapsed} and {saturated}.")
        share = self.utilisation("rank")
        if share != share:
            return None
        return "saturated" if share >= saturated else "collapsed" if share < collapsed else "in between"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: means over rows and heads by cut."""
        return {
            "total": self.total,
            "rtol": self.rtol,
            "rank": self.rank.double().mean((0, 1)).tolist(),
            "entropy": self.entropy.mean((0, 1)).tolist(),
        }


def effective_state_size(layer: Layer, x: Tensor, *, rtol: float = 1e-9) -> EffectiveSize:
    """Effective state size of one layer, in float64, by the exact two-sweep algorithm.

    Costs O(L (N^3 + E V N^2)) per head, and E backward passes over single steps.

    Args:
        layer: any layer.
        x: ``(B, L, d_model)``.
        rtol: see ``EffectiveSize.rtol``; the default counts all that rounding allows.

    Raises:
        InvalidInputError: an ``x`` that does not fit.

    Example:
        >>> from statetrack.layers import make_layer
        >>> _ = torch.manual_seed(0)
        >>> found = effective_state_size(make_layer("mamba2", 4, d_state=2, d_head=2), torch.randn(1, 12, 4))
        >>> found.rank[0, 0].tolist()
        [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]
    """
    if not has_states(layer):
        return EffectiveSize(_dense(layer, x).unsqueeze(1), None, rtol)
    run = unroll(layer, x)
    read = readouts(run, slice(0, x.shape[1]))  # (B, L, E, H, N, V)
    a = run.transitions.to_dense().movedim(2, 1)  # (B, H, L, N, N)
    rows = read.movedim(3, 1).permute(0, 1, 2, 3, 5, 4).flatten(3, 4).conj().resolve_conj()  # (B, H, L, E V, N)
    b = (run.writes if layer.traits.linear else _written(run)).movedim(2, 1)
    start = run.h[:, 0]
    if run.h.is_complex():
        a, b, start = _doubled(a), _stacked(b), _stacked(start)
        rows = torch.cat([rows.real, -rows.imag], dim=-1)  # Re(r h) = Re r Re h - Im r Im h
    return EffectiveSize(from_reads(a, b, rows, start), a.shape[-1], rtol)


def _written(run: Unrolled) -> Tensor:
    """``dh_t / dx_t`` with the state before the token held, ``(B, L, H, N, E)``."""
    rows = type(run.before)(*(f.flatten(0, 1) for f in run.before))
    u = run.x.flatten(0, 1).clone().requires_grad_()
    with torch.enable_grad(), every_token_alone():
        h = run.view.read(run.layer.step(u, rows)[1]).flatten(1)
    columns = [torch.autograd.grad(h[:, i].sum(), u, retain_graph=True)[0] for i in range(h.shape[1])]
    jacobian = torch.stack(columns, dim=1).unflatten(1, (run.view.n_heads, run.view.size))
    return jacobian.unflatten(0, run.x.shape[:2])


def _dense(layer: Layer, x: Tensor) -> Tensor:
    """Singular values of the blocks of the operator itself, ``(B, L - 1, n)``."""
    vectors = operator(layer, x).vectors
    assert vectors is not None
    n_rows, length = vectors.shape[:2]
    out = vectors.new_zeros(n_rows, max(length - 1, 0), max(length - 1, 1))
    for i in range(1, length):
        values = torch.linalg.svdvals(vectors[:, i:, :i].transpose(2, 3).flatten(1, 2))
        out[:, i - 1, : values.shape[-1]] = values
    return out


def _doubled(a: Tensor) -> Tensor:
    return torch.cat([torch.cat([a.real, -a.imag], dim=-1), torch.cat([a.imag, a.real], dim=-1)], dim=-2)


def _stacked(b: Tensor) -> Tensor:
    return torch.cat([b.real, b.imag], dim=-2)
