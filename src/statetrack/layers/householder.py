"""What DeltaNet, Gated DeltaNet, DeltaProduct and Gated DeltaProduct share: a decay, then generalised Householder steps.

    S <- a_t S ;   for j = 1..n:  S <- S + beta_j k_j (v_j - S^T k_j)^T          S in R^{K x V}, one per head
    A_t = a_t (I - beta_n k_n k_n^T) ... (I - beta_1 k_1 k_1^T)
    beta = c sigma(W_b x) ;   a = exp(-exp(A_log) softplus(W_a x + b_dt))

Letters: E = ``d_model``, H = heads, K = ``d_head``, V = ``expand_v * K``, n = ``n_householder``; c is 1, or 2 for eigenvalues in
[-1, 1]; a = 1 without a forget gate. Sources: DeltaNet (arXiv 2406.06484), negative eigenvalues (arXiv 2411.12537), Gated
DeltaNet (arXiv 2412.06464), DeltaProduct (arXiv 2502.10297).
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from statetrack.layers.delta_base import DeltaFactors, DeltaLayer, DeltaOptions, HeadOutput, start_linears_small
from statetrack.layers.options import inherits_options
from statetrack.layers.precision import KeepsFloat32, at_least_float32
from statetrack.layers.time_step import time_step_bias


class WriteStrength(nn.Module):
    """``beta = c sigma(W_b x)``, ``(B, L R, H, 1)`` from ``x (B, L, E)``.

    Args:
        d_model: E.
        n_heads: H.
        substeps: R, strengths per token.
        doubled: c = 2 instead of 1.
    """

    def __init__(self, d_model: int, n_heads: int, *, substeps: int = 1, doubled: bool = False) -> None:
        super().__init__()
        self.shape, self.scale = (substeps, n_heads, 1), 2.0 if doubled else 1.0
        self.b_proj = nn.Linear(d_model, substeps * n_heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * at_least_float32(self.b_proj(x)).sigmoid().unflatten(-1, self.shape).flatten(1, 2)


class ForgetGate(KeepsFloat32):
    """``log a = -exp(A_log) softplus(W_a x + b_dt)``, ``(B, L, H)`` from ``x (B, L, E)``.

    The rate ``exp(A_log)`` starts uniform in (0, 16), the time step log-uniform in [1e-3, 1e-1].
    """

    float32_parameters = ("A_log", "dt_bias")

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.a_proj = nn.Linear(d_model, n_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(n_heads).uniform_(0, 16).clamp(min=1e-4).log())
        self.dt_bias = nn.Parameter(time_step_bias(n_heads))

    def forward(self, x: Tensor) -> Tensor:
        # softplus(z) = -logsigmoid(-z); torch.compile mistakes the strides of softplus' gradient.
        return self.A_log.exp() * logsigmoid(-at_least_float32(self.a_proj(x)) - self.dt_bias)


class HouseholderOptions(DeltaOptions, total=False):
    """The options that DeltaNet, DeltaProduct and their gated forms share."""

    output_gate: bool
    negative_eigenvalues: bool


class HouseholderLayer(DeltaLayer):
    """Common constructor and delta rules; further options are those of ``DeltaLayer``.

    Args:
        d_model: E, width of input and output.
        n_householder: n, reflections per token.
        forget_gate: whether the state decays, by a.
        output_gate: multiply what is read by ``silu(W_g x)``.
        negative_eigenvalues: beta in (0, 2) instead of (0, 1): reflections, with eigenvalues down to -1.
    """

    @inherits_options(DeltaLayer)
    def __init__(
        self,
        d_model: int,
        *,
        n_householder: int,
        forget_gate: bool,
        output_gate: bool = True,
        negative_eigenvalues: bool = False,
        **shared: Unpack[DeltaOptions],
    ) -> None:
        super().__init__(d_model, substeps=n_householder, **shared)
        n_heads = self.n_heads
        self.strength = WriteStrength(d_model, n_heads, substeps=n_householder, doubled=negative_eigenvalues)
        self.forget = ForgetGate(d_model, n_heads) if forget_gate else None
        gate = nn.Linear(d_model, n_heads * self.d_value, bias=False) if output_gate else None
        self.readout = HeadOutput(d_model, n_heads, self.d_value, gate=gate)
        start_linears_small(self)

    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        write = self.strength(x) * k
        if self.forget is None:
            return DeltaFactors(write, v, k)
        log_decay = self.forget(x)
        # The first step reads what its decay has left.
        first, *rest = k.unflatten(1, (-1, self.substeps)).unbind(2)
        read = torch.stack([first * log_decay.exp().unsqueeze(-1), *rest], dim=2).flatten(1, 2)
        return DeltaFactors(write, v, read, log_decay)
