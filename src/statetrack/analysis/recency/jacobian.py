"""Influence of a token on a later output, ``|dy_t / dx_s|``: by vector-Jacobian products, and by a layer's transitions.

    dy_t/dx_s = [t = s] local_s + sum_{s <= r < t} R_t A_{t-1} ... A_{r+1} dh_r/dx_s          h_{r-1} held in each dh_r

Letters: B = rows, L = tokens, E = ``d_model``, ``R_t = dy_t/dh_{t-1}``. Only ``r = s`` counts where gates and writes see one
token; convolutions and token shifts add later r. Influence is the Frobenius norm of the Jacobian; it is not the size of an entry
of the operator, since gates depend on tokens too. Layers that choose (argmax) are differentiated straight through, as in
training. Source: "Understanding and Mitigating Bottlenecks of State Space Models through the Lens of Recency and Over-smoothing"
(arXiv 2501.00658).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from statetrack.analysis.recency.readouts import readouts
from statetrack.analysis.recency.unrolled import Unrolled, checked_input, has_states, in_float64, unroll
from statetrack.analysis.recency.vjp import jacobian_rows, parts, probe_energies, rows_at_once
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.repetition import every_token_alone
from statetrack.models import Tagger

Method = Literal["vjp", "operator"]


def influence(layer: Layer, x: Tensor, *, method: Method = "vjp", positions: Iterable[int] | None = None) -> Tensor:
    """``|dy_t / dx_s|_F`` of one layer in float64, ``(B, T, L)``; 0 for s > t.

    Args:
        layer: any layer; ``"operator"`` needs a state of constant size.
        x: ``(B, L, d_model)``.
        method: ``"vjp"`` differentiates the layer's forward pass; ``"operator"`` carries readouts back through the layer's
            transitions and differentiates single steps only. Both are exact and agree to rounding.
        positions: outputs t to look at; None means all.

    Raises:
        InvalidInputError: an ``x`` or positions that do not fit, an unknown method, or ``"operator"`` without a recurrence.

    Example:
        >>> from statetrack.layers import make_layer
        >>> found = influence(make_layer("lru", 4, d_state=2), torch.randn(1, 5, 4))
        >>> found.shape, bool(found.triu(1).any())
        (torch.Size([1, 5, 5]), False)
    """
    checked("method", method, Method)
    run_in = in_float64(layer)
    x = checked_input(run_in, x)
    chosen = _positions(positions, x.shape[1])
    if method == "operator":
        if not has_states(layer):
            raise InvalidInputError(f"{type(layer).__name__} has no recurrence of fixed size; take method='vjp'.")
        return _by_transitions(layer, x, chosen)
    return jacobian_rows(lambda u: run_in(u)[0], x, chosen).square().sum((2, 4)).sqrt()


def model_influence(
    model: Tagger,
    tokens: Tensor,
    *,
    positions: Iterable[int] | None = None,
    probes: int = 8,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Influence of embeddings on what the head of a model reads, ``(B, T, L)``, estimated with random probes.

    With ``v ~ N(0, I)`` the mean of ``|J^T v|^2`` is ``|J|_F^2``; one pass gives all s.

    Args:
        model: the model; it is left as it is.
        tokens: ``(B, L)``.
        positions: outputs t; None means all.
        probes: per output; 0 takes every unit vector instead, which is exact.
        generator: of the probes; None means one seeded with 0.

    Raises:
        InvalidInputError: tokens or positions that do not fit, or a negative number of probes.
    """
    if tokens.ndim != 2 or probes < 0:
        raise InvalidInputError(f"tokens need shape (B, L) and probes at least 0; got {tuple(tokens.shape)} and {probes}.")
    frozen = in_float64_model(model)
    x = frozen.embedding(tokens).detach()
    chosen = _positions(positions, x.shape[1])
    if not probes:
        return jacobian_rows(lambda u: features_of(frozen, u), x, chosen).square().sum((2, 4)).sqrt()
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    energy = probe_energies(lambda u: features_of(frozen, u), x, chosen, probes, generator)
    return energy.sqrt()


def in_float64_model(model: Tagger) -> Tagger:
    """A copy of a model in float64 and in evaluation mode whose parameters take no gradients."""
    return copy.deepcopy(model).double().eval().requires_grad_(False)


def features_of(model: Tagger, x: Tensor, *, depth: int | None = None) -> Tensor:
    """What the head reads, from embeddings ``x (B, L, d_model)``; with a depth, what leaves that many blocks."""
    for block in list(model.blocks)[:depth]:
        x, _ = block(x, None)
    return x if depth is not None else model.norm(x)


def _by_transitions(layer: Layer, x: Tensor, positions: list[int]) -> Tensor:
    """Jacobian norms from readouts that are carried back by the transitions."""
    run = unroll(layer, x)
    n_rows, length, width = x.shape
    read = readouts(run, slice(0, length), frozen=False)
    cotangents = [(t, e) for t in positions for e in range(run.outputs.shape[-1])]
    found = []
    for part in parts(cotangents, rows_at_once(n_rows)):
        copies = len(part)
        u = x.repeat_interleave(copies, dim=0).requires_grad_()
        with torch.enable_grad(), every_token_alone():
            outputs, states = _cut_chain(run, u, copies)
        carried = torch.zeros_like(states)  # (B K, L, H, N, V): what output t reads of the state after token r
        own = torch.zeros_like(outputs)
        index = torch.arange(n_rows)
        for k, (t, e) in enumerate(part):
            back = read[:, t, e]
            for r in range(t - 1, -1, -1):
                carried[index * copies + k, r] = back
                back = run.transitions[:, r].apply_adjoint(back.movedim(-1, 0)).movedim(0, -1)
            own[index * copies + k, t, e] = 1
        (grad,) = torch.autograd.grad(
            [outputs, states], u, [own, carried.resolve_conj()], allow_unused=True, materialize_grads=True
        )
        found.append(grad.view(n_rows, copies, length, width))
    jacobian = torch.cat(found, dim=1).unflatten(1, (len(positions), -1))
    return jacobian.square().sum((2, 4)).sqrt()


def _cut_chain(run: Unrolled, u: Tensor, copies: int) -> tuple[Tensor, Tensor]:
    """Outputs and states after each token of ``u``, every step starting from the vectors of the run as constants."""
    state = type(run.before)(*(f[:, 0].repeat_interleave(copies, dim=0) for f in run.before))
    outputs, states = [], []
    for t in range(u.shape[1]):
        state = run.view.replace(state, run.h[:, t].repeat_interleave(copies, dim=0))
        y, state = run.layer.step(u[:, t], state)
        outputs.append(y)
        states.append(run.view.read(state))
    return torch.stack(outputs, dim=1), torch.stack(states, dim=1)


def _positions(positions: Iterable[int] | None, length: int) -> list[int]:
    chosen = list(range(length)) if positions is None else list(positions)
    if not chosen or min(chosen) < 0 or max(chosen) >= length:
        raise InvalidInputError(f"positions must lie in 0..{length - 1} and not be empty; got {chosen}.")
    return chosen
