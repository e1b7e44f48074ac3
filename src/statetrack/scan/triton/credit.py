"""Straight-through credit of a routed scan, from its states and the gradients of its inputs.

With ``P`` the selection and ``A = P diag(D)`` (column) or ``diag(D) P`` (row), the gradient of ``P`` at one token is the outer
product ``Re(conj(u) v^T)`` of a cotangent ``u`` and a state ``v``:

    column   u = g               v = D * (state before)
    row      u = conj(D) * g     v = state before

An entry of the dictionary gets their sum over the tokens that took it, one matrix product; the route gets, for every entry, the
sum of that matrix over the places of the entry's ones. Letters: T = tokens, H = heads, K = entries, N = states, G = tokens per
group, J = groups. Tokens are sorted by route into groups of one route each, padded by zeros, so that the matrix products have
one shape whatever the routes are, nothing waits for the device and no sum depends on the order of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from statetrack.scan.triton.credit_kernel import credit_factors
from statetrack.scan.triton.launch import Argument, Launch, block_of
from statetrack.scan.triton.passes import Problem

_GROUP = 64
"""Tokens per group, at least: a group's outer products take ``N / G`` of the memory of a state per token."""


@dataclass(frozen=True)
class Groups:
    """Tokens sorted by route, in groups of one route.

    Attributes:
        size: G.
        place: ``(T, H)`` where each token goes, in ``0 .. J G``.
        shares: ``(H, K, J)`` 1 where a group is of an entry, else 0.
    """

    size: int
    place: Tensor
    shares: Tensor


def grouped(routes: Tensor, n_entries: int, size: int, dtype: torch.dtype) -> Groups:
    """Group the tokens of ``routes (T, H)``; ``shares`` gets ``dtype``."""
    by_head = routes.mT.long().contiguous()
    n_heads, n_tokens = by_head.shape
    ordered, order = by_head.sort(dim=1, stable=True)
    entries = torch.arange(n_entries + 1, device=routes.device).expand(n_heads, -1).contiguous()
    edges = torch.searchsorted(ordered, entries)
    ends = ((edges.diff() + (size - 1)) // size).cumsum(1)
    firsts = torch.cat([ends.new_zeros(n_heads, 1), ends[:, :-1]], dim=1)
    places = torch.arange(n_tokens, device=routes.device) + (firsts * size - edges[:, :-1]).gather(1, ordered)
    place = torch.empty_like(places).scatter_(1, order, places)
    n_groups = n_tokens // size + n_entries
    numbers = torch.arange(n_groups, device=routes.device).expand(n_heads, -1).contiguous()
    owners = torch.searchsorted(ends, numbers, right=True)
    shares = (owners.unsqueeze(1) == entries[:, :-1].unsqueeze(-1)).to(dtype)
    return Groups(size, place.mT.contiguous(), shares)


@dataclass(frozen=True)
class Credit:
    """Credit of the choices, once ``launch`` has run; ``routing (T, H, K)``, or empty."""

    problem: Problem
    column: bool
    full: bool
    groups: Groups
    launch: Launch
    u: Tensor | None
    v: Tensor
    routing: Tensor

    def selection(self) -> Tensor:
        """``(H, K, N, N)``: what the entries get."""
        assert self.problem.maps is not None
        n_heads, n_entries, n_groups = self.groups.shares.shape
        n = self.problem.width
        if self.full and self.u is not None:
            u, v = (x.view(n_heads, n_groups, -1, n) for x in (self.u, self.v))
            outer = (u.mT @ v).flatten(2)
            return (self.groups.shares @ outer).unflatten(-1, (n, n))
        totals = self.groups.shares @ self.v.view(n_heads, n_groups, -1, n).sum(2)
        along = 2 if self.column else 3
        index = self.problem.maps.view(n_heads, n_entries, n).long().unsqueeze(along)
        return totals.new_zeros(n_heads, n_entries, n, n).scatter_(along, index, totals.unsqueeze(along))


def credit(problem: Problem, states: Tensor, initial: Tensor, g_inputs: Tensor, full: bool, routes: bool) -> Credit:
    """Credit from ``g_inputs (T, H, N)``, the gradients of the inputs in the dtype of states.

    ``full`` credits every alternative, otherwise only what was chosen; ``routes`` asks for what the routes get.
    """
    assert problem.maps is not None and problem.routes is not None
    n_tokens, n_heads, n = problem.value.shape
    n_entries = len(problem.maps) // max(n_heads, 1)
    real, parts = states.real.dtype, 2 if states.is_complex() else 1
    groups = grouped(problem.routes, n_entries, max(_GROUP, block_of(n)), real)
    n_places = groups.shares.shape[-1] * groups.size
    u, v = (
        (torch.zeros(n_heads, n_places, parts, n, dtype=real, device=states.device) for _ in range(2))
        if full
        else (
            None,
            torch.zeros(n_heads, n_places, 1, n, dtype=real, device=states.device),
        )
    )
    routing = torch.zeros((n_tokens, n_heads, n_entries) if routes else (0,), dtype=real, device=states.device)
    arguments: dict[str, Argument] = {
        **problem.tokens("value", problem.value),
        **problem.sequences.arguments(),
        "g_inputs": g_inputs,
        "maps": problem.maps,
        "routes": problem.routes,
        "place": groups.place,
        "entries": n_entries,
        "heads": n_heads,
        "channels": problem.channels,
        "states": states,
        "initial": initial,
        "out_u": u,
        "out_v": v,
        "out_routing": routing,
        "n_places": n_places,
    }
    column = problem.form == "column"
    constants = {k: x for k, x in problem.constants("").items() if k != "FORM"} | {
        "COLUMN": column,
        "FULL": full,
        "ROUTES": routes,
    }
    launch = problem.launch(credit_factors, problem.sequences.n_chunks, arguments, constants)
    return Credit(problem, column, full, groups, launch, u, v, routing)
