"""Packed documents and padding equal one run per document."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from statetrack.layers.base import Layer
from statetrack.testing.case import Case, cotangents_like, gradients, rows_of
from statetrack.testing.compare import assert_close, assert_equal, assert_finite, assert_states_close
from statetrack.testing.laws.registry import law

OFFSETS = (0, 3, 3, 4, 9)


def _loop(layer: Layer, documents: list[Tensor], start: Any) -> tuple[list[Tensor], list[Any]]:
    runs = [layer(d, None if start is None else rows_of(start, slice(s, s + 1))) for s, d in enumerate(documents)]
    return [y for y, _ in runs], [state for _, state in runs]


@law
def packed_documents_equal_a_loop(case: Case) -> None:
    layer, x = case.build(), case.inputs(1, OFFSETS[-1], case.d_model).requires_grad_()
    n_documents = len(OFFSETS) - 1
    for start in (None, case.state(layer, n_documents)):
        label = "packed, from the initial state" if start is None else "packed, from given states"
        y, state = layer(x, start, cu_seqlens=torch.tensor(OFFSETS))
        parts, states = _loop(layer, [x[:, a:b] for a, b in pairwise(OFFSETS)], start)
        assert_close(label, y, torch.cat(parts, dim=1))
        cotangents = cotangents_like([y, *state])
        total = gradients(layer, [y, *state], cotangents, x, start or ())
        expected = {name: torch.zeros_like(g) for name, g in total.items()}
        for s, (a, b) in enumerate(pairwise(OFFSETS)):
            assert_states_close(f"{label}, document {s}", rows_of(state, slice(s, s + 1)), states[s])
            own = [cotangents[0][:, a:b], *(c[s : s + 1] for c in cotangents[1:])]
            for name, g in gradients(layer, [parts[s], *states[s]], own, x, start or ()).items():
                expected[name] = expected[name] + g
        for name, g in total.items():
            assert_close(f"{label}: gradient of {name}", g, expected[name])


@law
def documents_do_not_leak(case: Case) -> None:
    layer, x = case.build(), case.inputs(1, OFFSETS[-1], case.d_model)
    offsets = torch.tensor(OFFSETS)
    with torch.no_grad():
        y, state = layer(x, cu_seqlens=offsets)
        for s, (a, b) in enumerate(pairwise(OFFSETS)):
            changed = x.clone()
            changed[:, a:b] += 1.0
            other, other_state = layer(changed, cu_seqlens=offsets)
            outside = torch.ones(OFFSETS[-1], dtype=torch.bool)
            outside[a:b] = False
            assert_equal(f"document {s} changed: outputs of the others", other[:, outside], y[:, outside])
            rest = [r for r in range(len(OFFSETS) - 1) if r != s]
            for name, f, g in zip(state._fields, state, other_state, strict=True):
                assert_equal(f"document {s} changed: state.{name} of the others", g[rest], f[rest])


@law
def rows_do_not_mix(case: Case) -> None:
    layer, x = case.build(), case.inputs(3, 6, case.d_model)
    start = case.state(layer, len(x))
    with torch.no_grad():
        y, state = layer(x, start)
        for row in range(len(x)):
            alone, alone_state = layer(x[row : row + 1], rows_of(start, slice(row, row + 1)))
            assert_close(f"row {row} alone", alone, y[row : row + 1])
            assert_states_close(f"row {row} alone", alone_state, rows_of(state, slice(row, row + 1)))


@law
def empty_packs_work(case: Case) -> None:
    layer = case.build()
    for offsets in ([0], [0, 0], [0, 0, 0]):
        y, state = layer(case.inputs(1, 0, case.d_model), cu_seqlens=torch.tensor(offsets))
        assert y.shape == (1, 0, case.d_model), f"offsets {offsets}: output has shape {tuple(y.shape)}"
        expected = layer.initial_state(len(offsets) - 1)
        assert_states_close(f"offsets {offsets}", state, expected, 0.0)


@law
def padding_changes_nothing(case: Case) -> None:
    layer, clean = case.build(), case.inputs(5, 6, case.d_model)
    mask = torch.tensor(
        [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
    ).bool()
    x = torch.where(mask.unsqueeze(-1), clean, torch.nan).requires_grad_()
    for start in (None, case.state(layer, len(x))):
        y, state = layer(x, start, mask=mask)
        assert_equal("outputs at padding", y[~mask], torch.zeros_like(y[~mask]))
        cotangents = cotangents_like([y, *state])
        total = gradients(layer, [y, *state], cotangents, x, start or ())
        assert_finite("gradient of padded inputs", total.values())
        assert_equal("gradient at padding", total["source 0.0"][~mask], torch.zeros_like(x[~mask]))
        parts, states = _loop(layer, [x[s : s + 1, mask[s]] for s in range(len(x))], start)
        expected = {name: torch.zeros_like(g) for name, g in total.items()}
        for s, part in enumerate(parts):
            assert_close(f"row {s} without its padding", y[s : s + 1, mask[s]], part)
            assert_states_close(f"row {s} without its padding", rows_of(state, slice(s, s + 1)), states[s])
            own = [cotangents[0][s : s + 1, mask[s]], *(c[s : s + 1] for c in cotangents[1:])]
            for name, g in gradients(layer, [part, *states[s]], own, x, start or ()).items():
                expected[name] = expected[name] + g
        for name, g in total.items():
            assert_close(f"padding: gradient of {name}", g, expected[name])
