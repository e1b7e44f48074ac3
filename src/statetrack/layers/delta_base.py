"""What the layers of the delta family share: queries, keys and values, the readout, and the run through the low-rank scan.

    [q, k, v] = W x, short convolution, SiLU ;   q, k divided by their length per head
    S_t = delta rule with these ;   o_t = S_t^T q_t / sqrt(K) ;   y_t = W_o concat_heads( RMSNorm(o_t) * act(gate(x_t)) )

Letters: E = ``d_model``, H = heads, K = key size, V = value size, R = ``substeps`` (keys and values per token), C = channels of
the convolution. A layer says how keys turn into a transition (``_factors``). Without additive input there are no values, and the
state starts at the first columns of the identity instead of 0. Sources: DeltaNet (arXiv 2406.06484), Gated DeltaNet (arXiv
2412.06464), DeltaProduct (arXiv 2502.10297).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer
from statetrack.layers.convolution import CausalConvolution
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.scan import LowRankBackend, low_rank_scan
from statetrack.structures import DiagonalPlusLowRank

CONVOLUTION_WIDTH = 4


class DeltaState(NamedTuple):
    """Attributes:
    conv: ``(B, 3, C)``, the last inputs of the short convolution; ``(B, 0, C)`` without one.
    h: ``(B, H, K, V)``.
    """

    conv: Tensor
    h: Tensor


class DeltaFactors(NamedTuple):
    """One delta rule per step: ``S <- S' + write (values - S^T read)^T`` with ``S' = exp(log_decay) S``.

    Attributes:
        write: ``(B, L R, H, K)``.
        values: ``(B, L R, H, V)``.
        read: ``(B, L R, H, K)``; it reads the state before its decay.
        log_decay: ``(B, L, H)`` or ``(B, L, H, K)``, in the first step of each token; None means 0.
    """

    write: Tensor
    values: Tensor
    read: Tensor
    log_decay: Tensor | None = None


def unit_length(x: Tensor, eps: float = 1e-6) -> Tensor:
    """``x / sqrt(sum x^2 + eps)`` along the last dimension, in float32 or better."""
    x = at_least_float32(x)
    return x * (x.square().sum(-1, keepdim=True) + eps).rsqrt()


def start_linears_small(module: nn.Module) -> None:
    """The published start of the family: all linear maps Xavier-uniform with gain ``2^-2.5``, biases 0."""
    for linear in (m for m in module.modules() if isinstance(m, nn.Linear)):
        nn.init.xavier_uniform_(linear.weight, gain=2**-2.5)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


class HeadInputs(nn.Module):
    """Queries, keys and values of every head.

    Args:
        d_model: E.
        n_heads: H.
        d_key: K.
        d_value: V.
        substeps: R, keys and values per token.
        short_conv: a causal convolution of width 4 over each channel, before the activation.
        values: whether there are values; without, they are zeros.
        activate_keys: SiLU on queries and keys (values always have it).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_key: int,
        d_value: int,
        *,
        substeps: int = 1,
        short_conv: bool = True,
        values: bool = True,
        activate_keys: bool = True,
    ) -> None:
        super().__init__()
        self.n_heads, self.d_key, self.d_value, self.substeps, self.activate_keys = (
            n_heads,
            d_key,
            d_value,
            substeps,
            activate_keys,
        )
        self.q_proj = nn.Linear(d_model, n_heads * d_key, bias=False)
        self.k_proj = nn.Linear(d_model, substeps * n_heads * d_key, bias=False)
        self.v_proj = nn.Linear(d_model, substeps * n_heads * d_value, bias=False) if values else None
        self.sizes = [n_heads * d_key, substeps * n_heads * d_key, substeps * n_heads * d_value if values else 0]
        self.conv = CausalConvolution(sum(self.sizes), CONVOLUTION_WIDTH, bias=False) if short_conv else None

    def initial_state(self, batch_size: int) -> Tensor:
        """Zeros for the inputs before the first token."""
        return zero_state(self, batch_size, 0, sum(self.sizes)) if self.conv is None else self.conv.initial_state(batch_size)

    def forward(self, x: Tensor, conv: Tensor, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``q (B, L, H, K)``, ``k (B, L R, H, K)``, ``v (B, L R, H, V)`` and the new state of the convolution."""
        projections = [self.q_proj, self.k_proj, *([] if self.v_proj is None else [self.v_proj])]
        mixed = torch.cat([linear(x) for linear in projections], dim=-1)
        if self.conv is not None:
            mixed, conv = self.conv(mixed, conv, cu_seqlens)
        q, k, v = mixed.split(self.sizes, dim=-1)
        if self.activate_keys:
            q, k = silu(q), silu(k)
        q, k = unit_length(self._heads(q, 1, self.d_key)), unit_length(self._heads(k, self.substeps, self.d_key))
        if self.v_proj is None:
            return q, k, k.new_zeros(()).expand(*k.shape[:3], self.d_value), conv
        return q, k, self._heads(silu(v), self.substeps, self.d_value), conv

    def _heads(self, x: Tensor, steps: int, size: int) -> Tensor:
        return x.unflatten(-1, (steps, self.n_heads, size)).flatten(1, 2)


class HeadOutput(nn.Module):
    """``W_o concat_heads( RMSNorm(o) * act(gate(x)) )``; one norm weight for all heads.

    Args:
        d_model: E.
        n_heads: H.
        d_value: V.
        gate: maps ``(B, L, E)`` to ``(B, L, H V)``; None leaves the gate out.
        activation: of the gate.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_value: int,
        *,
        gate: nn.Module | None = None,
        activation: Callable[[Tensor], Tensor] = silu,
    ) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d_value, eps=1e-5)
        self.gate, self.activation = gate, activation
        self.out = nn.Linear(n_heads * d_value, d_model, bias=False)

    def forward(self, o: Tensor, x: Tensor) -> Tensor:
        """``(B, L, E)`` from what the heads read ``(B, L, H, V)`` and the layer's input ``(B, L, E)``."""
        y = self.norm(o.to(self.norm.weight.dtype)).flatten(-2).to(x.dtype)
        return self.out(y if self.gate is None else y * self.activation(self.gate(x)))


class DeltaOptions(TypedDict, total=False):
    """The options of ``DeltaLayer`` that every layer of the family has."""

    n_heads: int
    d_head: int | None
    expand_v: int
    short_conv: bool
    additive_input: bool
    backend: LowRankBackend


class DeltaLayer(Layer):
    """Common forward pass; a subclass adds its own parameters, sets ``readout`` and defines ``_factors``.

    Args:
        d_model: E, width of input and output.
        n_heads: H, independent states.
        d_head: K; None means ``E / H``, rounded up.
        expand_v: V as a multiple of K.
        short_conv: convolve queries, keys and values over the last 4 tokens; published tracking runs leave it out.
        additive_input: whether values are written; without, the state starts at the identity and only the transitions act.
        backend: of the scan.
        substeps: R.
        activate_keys: SiLU on queries and keys.

    Raises:
        InvalidInputError: a size below 1.
    """

    readout: HeadOutput

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int = 4,
        d_head: int | None = None,
        expand_v: int = 1,
        short_conv: bool = True,
        additive_input: bool = True,
        backend: LowRankBackend = "auto",
        substeps: int = 1,
        activate_keys: bool = True,
    ) -> None:
        super().__init__()
        if min(d_model, n_heads, expand_v, substeps, 1 if d_head is None else d_head) < 1:
            raise InvalidInputError(
                f"all sizes of {type(self).__name__} must be at least 1; got d_model {d_model}, n_heads {n_heads}, "
                f"d_head {d_head}, expand_v {expand_v}, substeps {substeps}."
            )
        d_head = -(-d_model // n_heads) if d_head is None else d_head
        self.d_model, self.n_heads, self.d_head, self.d_value = d_model, n_heads, d_head, expand_v * d_head
        self.substeps, self.additive_input, self.backend = substeps, additive_input, backend
        self.heads = HeadInputs(
            d_model,
            n_heads,
            d_head,
            self.d_value,
            substeps=substeps,
            short_conv=short_conv,
            values=additive_input,
            activate_keys=activate_keys,
        )

    @abstractmethod
    def _factors(self, x: Tensor, k: Tensor, v: Tensor) -> DeltaFactors:
        """The delta rules of every token, from the layer's input ``(B, L, E)``, its keys and its values."""

    def initial_state(self, batch_size: int) -> DeltaState:
        h = zero_state(self, batch_size, self.n_heads, self.d_head, self.d_value)
        if not self.additive_input:
            h = h + torch.eye(self.d_head, self.d_value, dtype=h.dtype, device=h.device)
        return DeltaState(self.heads.initial_state(batch_size), h)

    def transitions(self, x: Tensor, state: DeltaState | None = None) -> DiagonalPlusLowRank:
        """``Diag(exp(log_decay)) - write read^T``; for several steps per token their product."""
        state = self.initial_state(x.shape[0]) if state is None else state
        _, k, v, _ = self.heads(x, state.conv, None)
        write, _, read, log_decay = self._factors(x, k, v)
        shape = (x.shape[1], self.substeps)
        left, right = (t.unflatten(1, shape).transpose(2, 3).mT for t in (write, read))  # (B, L, H, K, R)
        one = torch.ones_like(left[..., 0])
        if log_decay is None:
            decay = one
        else:
            decay = log_decay.exp() if log_decay.ndim == 4 else log_decay.exp().unsqueeze(-1).expand_as(one)
        product = DiagonalPlusLowRank(decay, -left[..., :1], right[..., :1])
        for j in range(1, self.substeps):
            product = DiagonalPlusLowRank(one, -left[..., j : j + 1], right[..., j : j + 1]).compose(product)
        return product

    def _forward(self, x: Tensor, state: DeltaState, cu_seqlens: Tensor | None) -> tuple[Tensor, DeltaState]:
        q, k, v, conv = self.heads(x, state.conv, cu_seqlens)
        o, final = self._scan(q, self._factors(x, k, v), state.h, cu_seqlens)
        return self.readout(o, x), DeltaState(conv, final)

    def _scan(self, q: Tensor, factors: DeltaFactors, h: Tensor, cu_seqlens: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the heads read ``(B, L, H, V)`` and the states after the last tokens."""
        return low_rank_scan(
            q * self.d_head**-0.5,
            factors.write,
            factors.values,
            None,
            factors.read,
            log_decay=factors.log_decay,
            initial_state=h,
            cu_seqlens=cu_seqlens,
            substeps=self.substeps,
            backend=self.backend,
        )
