"""Fixed-point RNN: a diagonal recurrence iterated with a channel mixer, towards a dense recurrence.

    h^l_t = lam_t * h^l_{t-1} + (1 - lam_t) * (Q_t v_t + (I - Q_t) h^{l-1}_t) ,   h^0 = 0 ,   l = 1 .. n ;   v_t = B x_t
    lam_t = sigmoid(W x_t + c) ;   y_t = V h^n_t + a
    I - Q = (1/r) sum_j alpha_j u_j u_j^T                  (dplr)
        Q = (I - alpha_r u_r u_r^T) ... (I - alpha_1 u_1 u_1^T)     (householder)
    I - Q = K_1 (x) K_2                                    (kronecker)

The entries of the mixer (u of length 1, alpha in (0, 1), K of operator norm at most 1) come from ``x_t`` and, if the mixer
depends on the state, from the previous iterate one token earlier, ``h^{l-1}_{t-1}``.

Which fixed point: as n grows, h converges to the solution of
    [I - (1 - lam_t)(I - Q_t)] h_t = lam_t h_{t-1} + (1 - lam_t) Q_t v_t
and not to ``h_t = Q_t^{-1} lam_t h_{t-1} + v_t``, the fixed point of the iteration without the factor ``1 - lam_t``. For a
given Q with ``|I - Q| <= 1`` its transition has eigenvalues of positive real part and modulus at most 1, and 1 is the only one of
modulus 1; what a group needs beyond that has to come from a mixer that depends on the state.

The number n of iterations is fixed, and the state keeps all n iterates: one step equals one pass at every n, and gradients are
those of what is computed. Iterate l sees only iterates below it, so n iterations are n positive diagonal layers with shared
weights; n = 1 is a gated diagonal layer. No weight has the size of n: ``n_iterations`` of a trained layer may be raised, as
longer sequences need.

Letters: E = ``d_model``, N = ``d_state``, n = ``n_iterations``, r = ``rank``. Source: Fixed-point RNNs (arXiv 2503.10799).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.layers.base import Claim, Layer, Traits, register
from statetrack.layers.fixed_point_mixers import Mixer, complement, mixer_size
from statetrack.layers.float32_linear import Float32Linear
from statetrack.layers.precision import at_least_float32, zero_state
from statetrack.scan import Backend, scan
from statetrack.scan.offsets import states_before
from statetrack.structures import Dense, Diagonal


class FixedPointState(NamedTuple):
    """Attributes:
    h: ``(B, n, N)``, all iterates after the last token.
    """

    h: Tensor


@register("fp-rnn")
class FixedPointRNN(Layer):
    """Fixed-point RNN with a linear readout.

    Args:
        d_model: E, width of input and output.
        d_state: N.
        n_iterations: n; few make it a diagonal layer, many a dense RNN.
        mixer: form of Q: ``"kronecker"``, ``"householder"`` or ``"dplr"``.
        rank: r, for ``"householder"`` and ``"dplr"``.
        state_dependent: let the mixer read the previous iterate, which makes the layer nonlinear in its state.
        backend: of the scan of each iteration.

    Raises:
        InvalidInputError: a size below 1, or an unknown ``mixer``.

    Example:
        >>> layer = FixedPointRNN(8, d_state=4, n_iterations=3)
        >>> y, state = layer(torch.zeros(2, 5, 8))
        >>> y.shape, state.h.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 3, 4]))
    """

    traits = Traits(
        structure="block triangular over the iterates; dense at the fixed point",
        spectrum="that of the diagonal, in (0, 1)",
        input_dependent="diagonal, mixer (with the state if state_dependent)",
        one_layer=Claim("at most", "star-free automata at any fixed n", "derived, as n layers of arXiv 2404.08819"),
        deeper=Claim("at most", "star-free automata at any fixed n", "derived, as n layers of arXiv 2404.08819"),
        parity=False,
        cost="O(n N^1.5) with a Kronecker mixer, O(n N r) with the others",
        source="Fixed-point RNNs (arXiv 2503.10799)",
        linear=False,
    )

    def __init__(
        self,
        d_model: int,
        *,
        d_state: int = 64,
        n_iterations: int = 8,
        mixer: Mixer = "kronecker",
        rank: int = 1,
        state_dependent: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if min(d_model, d_state, n_iterations, rank) < 1:
            raise InvalidInputError(
                f"d_model, d_state, n_iterations and rank must be at least 1; got {d_model}, {d_state}, {n_iterations}, {rank}."
            )
        size = mixer_size(mixer, d_state, rank)
        self.d_model, self.d_state, self.n_iterations, self.backend = d_model, d_state, n_iterations, backend
        self.mixer, self.rank = mixer, rank
        self.input = nn.Linear(d_model, d_state, bias=False)
        self.decay = Float32Linear(d_model, d_state)
        self.mixing = Float32Linear(d_model, size)
        self.feedback = Float32Linear(d_state, size, bias=False) if state_dependent and n_iterations > 1 else None
        self.out = nn.Linear(d_state, d_model)

    def initial_state(self, batch_size: int) -> FixedPointState:
        return FixedPointState(zero_state(self, batch_size, self.n_iterations, self.d_state))

    def transitions(self, x: Tensor, state: FixedPointState | None = None) -> Dense:
        """Jacobians over all iterates along the run, ``(B, L, 1, n N, n N)``."""
        state = self.initial_state(x.shape[0]) if state is None else state
        with torch.no_grad():
            before = states_before(self._iterates(x, state, None), state.h, None)
            flat = x.flatten(0, 1), before.flatten(0, 1)
            jacobians = torch.vmap(torch.func.jacrev(self._token, argnums=1))(*flat)
        size = self.n_iterations * self.d_state
        return Dense(jacobians.reshape(*x.shape[:2], 1, size, size))

    def _forward(self, x: Tensor, state: FixedPointState, cu_seqlens: Tensor | None) -> tuple[Tensor, FixedPointState]:
        iterates = self._iterates(x, state, cu_seqlens)
        y = self.out(iterates[:, :, -1].to(x.dtype))
        if cu_seqlens is None:
            return y, FixedPointState(iterates[:, -1] if x.shape[1] else state.h)
        empty = cu_seqlens[1:] == cu_seqlens[:-1]
        last = torch.cat([iterates[0], state.h])  # of an empty document: what it started from
        rows = torch.arange(len(empty), device=x.device)
        return y, FixedPointState(last[torch.where(empty, x.shape[1] + rows, cu_seqlens[1:] - 1)])

    def _iterates(self, x: Tensor, state: FixedPointState, cu_seqlens: Tensor | None) -> Tensor:
        """``(B, L, n, N)``."""

        def recur(level: int, decay: Tensor, drive: Tensor) -> Tensor:
            start = state.h[:, level].unsqueeze(1)
            run = scan(Diagonal(decay.unsqueeze(2)), drive.unsqueeze(2), start, cu_seqlens=cu_seqlens, backend=self.backend)
            return run.states.squeeze(2)

        def before(level: int, h: Tensor) -> Tensor:
            return states_before(h, state.h[:, level].to(h.dtype), cu_seqlens)

        return self._iterate(x, recur, before)

    def _token(self, x: Tensor, h: Tensor) -> Tensor:
        """Iterates ``(n, N)`` after one token ``(E,)``, from those before it."""
        return self._iterate(x, lambda level, decay, drive: decay * h[level] + drive, lambda level, _: h[level])

    def _iterate(
        self, x: Tensor, recur: Callable[[int, Tensor, Tensor], Tensor], before: Callable[[int, Tensor], Tensor]
    ) -> Tensor:
        """All iterates; ``recur`` runs the diagonal recurrence of one of them, ``before`` shifts one by a token."""
        decay, v, mixing = self.decay(x).sigmoid(), at_least_float32(self.input(x)), self.mixing(x)
        h, iterates = torch.zeros_like(v), []
        with torch.autocast(x.device.type, enabled=False):
            for level in range(self.n_iterations):
                entries = mixing
                if self.feedback is not None and level > 0:
                    entries = mixing + self.feedback(before(level - 1, h))
                # Q v + (I - Q) h = v - (I - Q)(v - h).
                mixed = v - complement(self.mixer, entries, v - h, self.rank)
                h = recur(level, decay, (1 - decay) * mixed)
                iterates.append(h)
        return torch.stack(iterates, dim=-2)
