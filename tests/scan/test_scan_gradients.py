"""Gradients of every scan: finite differences, autograd through the dense loop, and the closed formulas."""

import pytest
import torch

from statetrack.scan import scan
from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, RowOneHot

KERNELS = [Diagonal, ColumnOneHot, RowOneHot]
PAIRS = [(s, b) for s in [*KERNELS, Dense, BlockDiagonal] for b in ("reference", "tree", "cpu") if b != "cpu" or s in KERNELS]


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_are_derivatives(oracle, structure, backend, dtype):
    a, b, h0 = oracle.example(structure, (1, 3, 2), 2, dtype)
    a = oracle.leaf(a)
    name = next(key for key, value in vars(a).items() if value is a.values)

    def run(values, inputs, initial):
        return scan(type(a)(**{**vars(a), name: values}), inputs, initial, backend=backend)

    assert torch.autograd.gradcheck(run, (a.values, b.requires_grad_(), h0.requires_grad_()))


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_equal_autograd_through_the_dense_loop(oracle, structure, backend, given, packed):
    """Random cotangents on states and final states; with and without inputs, initial state and documents."""
    rows, length = (1, 9) if packed else (2, 7)
    offsets = [0, 0, 4, 5, 5, 9] if packed else None
    a, b, h0 = oracle.example(structure, (rows, length, 2), 4, torch.complex128)
    if packed:
        h0 = torch.randn(5, 2, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(9))
    a, b, h0 = oracle.leaf(a), b.requires_grad_(), h0.requires_grad_()
    inputs, initial = b if given[0] else None, h0 if given[1] else None
    start = h0 if given[1] else torch.zeros_like(h0)
    g = torch.Generator().manual_seed(5)
    expected = oracle.loop(oracle.dense(a), inputs, start, offsets)
    cotangents = [torch.randn(e.shape, generator=g, dtype=e.dtype) for e in expected]
    found = scan(a, inputs, initial, cu_seqlens=torch.tensor(offsets) if packed else None, backend=backend)
    sources = [a.values, *([b] if given[0] else []), *([h0] if given[1] else [])]
    for outputs in ((0, 1), (0,), (1,)):
        pick = [[each[i] for i in outputs] for each in (found, expected, cotangents)]
        grads = torch.autograd.grad(pick[0], sources, pick[2], retain_graph=True)
        wanted = torch.autograd.grad(pick[1], sources, pick[2], retain_graph=True, allow_unused=True, materialize_grads=True)
        for grad, want in zip(grads, wanted, strict=True):
            torch.testing.assert_close(grad, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
def test_one_hot_gradients_equal_the_closed_formulas(orientation, backend):
    """State adjoint and per-step gradients, written as in the specification: gather for columns, scatter for rows."""
    g = torch.Generator().manual_seed(0)
    n, length = 5, 8
    index = torch.randint(n, (length, n), generator=g)
    d, b = (torch.randn(length, n, generator=g, dtype=torch.complex128).requires_grad_() for _ in range(2))
    x0 = torch.randn(n, generator=g, dtype=torch.complex128).requires_grad_()
    upstream = torch.randn(length, n, generator=g, dtype=torch.complex128)
    structure = ColumnOneHot if orientation == "column" else RowOneHot
    transitions = structure(index.view(1, length, 1, n), d.view(1, length, 1, n))
    states = scan(transitions, b.view(1, length, 1, n), x0.view(1, 1, n), backend=backend).states
    grads = torch.autograd.grad(states, [d, b, x0], upstream.view(1, length, 1, n))
    x = torch.cat([x0.unsqueeze(0), states[0, :, 0]]).detach()
    c = torch.zeros(n, dtype=torch.complex128)
    d_d, d_b = torch.zeros_like(d), torch.zeros_like(b)
    for t in reversed(range(length)):
        g_t, before, p = upstream[t] + c, x[t], index[t]
        d_b[t] = g_t
        if orientation == "column":
            d_d[t] = g_t[p] * before.conj()
            c = d[t].detach().conj() * g_t[p]
        else:
            d_d[t] = g_t * before[p].conj()
            c = torch.zeros(n, dtype=torch.complex128).scatter_add(0, p, d[t].detach().conj() * g_t)
    for found, wanted in zip(grads, (d_d, d_b, c), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11)


GATES = {
    "zero": 0.0,
    "one": 1.0,
    "minus one": -1.0,
    "tiny": 1e-12,
    "denormal": 1e-310,
    "unit circle": 0.6 + 0.8j,
    "one below one": 1 - 2**-53,
}


@pytest.mark.parametrize("structure", KERNELS)
@pytest.mark.parametrize("backend", ["tree", "cpu"])
@pytest.mark.parametrize("gate", GATES)
def test_extreme_gates_stay_finite_and_right(oracle, structure, backend, gate):
    """Also gates that change between extremes from token to token."""
    a, b, h0 = oracle.example(structure, (1, 40, 2), 4, torch.complex128)
    value = torch.full_like(a.value, GATES[gate])
    value[:, ::7] = 1.0
    value[:, 3::11] = 0.0
    a = oracle.leaf(type(a)(**{**vars(a), "value": value}))
    b, h0 = b.requires_grad_(), h0.requires_grad_()
    outcomes = []
    for states, final in (scan(a, b, h0, backend=backend), oracle.loop(oracle.dense(a), b, h0)):
        grads = torch.autograd.grad(states.abs().square().sum() + final.real.sum(), [a.values, b, h0])
        outcomes.append([states, final, *grads])
    for found, expected in zip(*outcomes, strict=True):
        assert torch.isfinite(torch.view_as_real(found)).all()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
