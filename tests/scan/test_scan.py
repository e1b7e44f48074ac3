"""Values of every scan against the dense loop."""

import logging

import pytest
import torch

from statetrack.errors import BackendError, InvalidInputError
from statetrack.scan import scan
from statetrack.scan.backends import _announce
from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot

KERNELS = [Diagonal, ColumnOneHot, RowOneHot]
ALL = [*KERNELS, Dense, BlockDiagonal]
PAIRS = [(s, b) for s in ALL for b in ("reference", "tree", "cpu", "auto") if b != "cpu" or s in KERNELS]
LENGTHS = [0, 1, 2, 3, 4, 5, 8, 13]


def close(actual, expected, tolerance=1e-11):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_states_equal_the_dense_loop(oracle, structure, backend, dtype):
    for length in LENGTHS:
        a, b, h0 = oracle.example(structure, (2, length, 3), 4, dtype)
        for inputs in (b, None):
            for initial in (h0, None):
                start = torch.zeros_like(h0) if initial is None else h0
                states, final = scan(a, inputs, initial, backend=backend)
                expected, expected_final = oracle.loop(oracle.dense(a), inputs, start)
                close(states, expected)
                close(final, expected_final)


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
def test_packed_documents_equal_a_loop_over_them(oracle, structure, backend):
    offsets = [0, 0, 3, 4, 4, 9, 9]
    a, b, _ = oracle.example(structure, (1, 9, 2), 4, torch.complex128)
    h0 = torch.randn(6, 2, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    for cu_seqlens in (torch.tensor(offsets), torch.tensor(offsets, dtype=torch.int32)):
        states, final = scan(a, b, h0, cu_seqlens=cu_seqlens, backend=backend)
        expected, expected_final = oracle.loop(oracle.dense(a), b, h0, offsets)
        close(states, expected)
        close(final, expected_final)


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
def test_any_split_equals_one_pass(oracle, structure, backend):
    a, b, h0 = oracle.example(structure, (2, 6, 2), 4, torch.complex128)
    states, final = scan(a, b, h0, backend=backend)
    for k in range(7):
        first, middle = scan(a[:, :k], b[:, :k], h0, backend=backend)
        second, last = scan(a[:, k:], b[:, k:], middle, backend=backend)
        close(torch.cat([first, second], 1), states)
        close(last, final)


@pytest.mark.parametrize(("structure", "backend"), PAIRS)
@pytest.mark.parametrize("shape", [(0, 4, 2), (2, 4, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_dimensions(oracle, structure, backend, shape):
    a, b, h0 = oracle.example(structure, shape, 2, torch.float64)
    states, final = scan(a, b, h0, backend=backend)
    assert states.shape == (*shape, 2)
    assert final.shape == (shape[0], shape[2], 2)
    close(states, oracle.loop(oracle.dense(a), b, h0)[0])


@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
def test_no_documents_at_all(backend):
    a = Diagonal(torch.ones(1, 0, 2, 3))
    states, final = scan(a, cu_seqlens=torch.tensor([0]), backend=backend)
    assert states.shape == (1, 0, 2, 3)
    assert final.shape == (0, 2, 3)


@pytest.mark.parametrize("structure", KERNELS)
@pytest.mark.parametrize("backend", ["tree", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_single_precision_stays_within_the_error_budget(oracle, structure, backend, dtype):
    """Against the double-precision oracle, no more than three times the error of the loop in the same precision."""
    double = torch.complex128 if dtype.is_complex else torch.float64
    a, b, h0 = oracle.example(structure, (2, 300, 2), 8, double)
    a = type(a)(**{**vars(a), "value": (a.value / a.value.abs() * 0.99)})
    exact = oracle.loop(oracle.dense(a), b, h0)[0]
    single = type(a)(**{**vars(a), "value": a.value.to(dtype)})
    reference = oracle.loop(oracle.dense(single), b.to(dtype), h0.to(dtype))[0]
    found = scan(single, b.to(dtype), h0.to(dtype), backend=backend).states
    assert found.dtype == dtype
    budget = 3 * (reference.to(double) - exact).abs().max()
    assert (found.to(double) - exact).abs().max() <= budget


@pytest.mark.parametrize("structure", [ColumnOneHot, RowOneHot])
@pytest.mark.parametrize("backend", ["cpu", "tree"])
def test_products_of_permutations_are_exact_at_length_100000(structure, backend):
    n, length = 6, 100_000
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(length, n, generator=generator).argsort(-1)
    h0 = torch.randn(n, generator=generator)
    transitions = structure(maps.view(1, length, 1, n), torch.ones(1, length, 1, n))
    states, final = scan(transitions, None, h0.view(1, 1, n), backend=backend)
    place = list(range(n))
    for step in maps.tolist():
        place = [step[p] for p in place] if structure is ColumnOneHot else [place[p] for p in step]
    expected = torch.empty(n)
    if structure is ColumnOneHot:
        expected[place] = h0
    else:
        expected = h0[place]
    assert torch.equal(final[0, 0], expected)
    assert torch.equal(states[0, -1, 0], expected)


@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
@pytest.mark.parametrize("orientation", ["column", "row"])
def test_compressed_forms_scan_like_their_expansion(oracle, backend, orientation):
    g = torch.Generator().manual_seed(0)
    value, b = (torch.randn(2, 7, 2, 4, generator=g, dtype=torch.complex128) for _ in range(2))
    h0 = torch.randn(2, 2, 4, generator=g, dtype=torch.complex128)
    dictionary = torch.randint(4, (2, 3, 4), generator=g)
    route = torch.randint(3, (2, 7, 2), generator=g)
    scores = torch.randn(2, 3, 4, 4, generator=g, dtype=torch.float64)
    mix = torch.rand(2, 7, 2, 3, generator=g, dtype=torch.float64)
    for a in (RoutedOneHot(dictionary, route, value, orientation), MixedOneHot(scores, mix, value, orientation)):
        for inputs in (b, None):
            expected, expected_final = oracle.loop(oracle.dense(a.expand()), inputs, h0)
            states, final = scan(a, inputs, h0, backend=backend)
            close(states, expected)
            close(final, expected_final)


def test_half_precision_is_computed_in_float32():
    a, b = torch.full((1, 50, 1, 2), 0.999).bfloat16(), torch.ones(1, 50, 1, 2).bfloat16()
    for backend in ("reference", "tree", "cpu"):
        states = scan(Diagonal(a), b, backend=backend).states
        assert states.dtype == torch.float32
        close(states, scan(Diagonal(a.double()), b.double(), backend="reference").states.float(), 1e-5)


def test_mixed_dtypes_meet_in_the_wider_one():
    a, b = Diagonal(torch.ones(1, 2, 1, 2)), torch.ones(1, 2, 1, 2, dtype=torch.complex128)
    assert scan(a, b).states.dtype == torch.complex128
    assert scan(a, None, torch.zeros(1, 1, 2, dtype=torch.float64)).states.dtype == torch.float64


def bad_calls():
    a, b, h0 = Diagonal(torch.ones(2, 3, 1, 4)), torch.ones(2, 3, 1, 4), torch.zeros(2, 1, 4)
    one = Diagonal(torch.ones(1, 3, 1, 4))
    yield "batch dimensions", lambda: scan(Diagonal(torch.ones(2, 3, 4)), b)
    yield "inputs need shape", lambda: scan(a, b[:, :2])
    yield "initial_state needs shape", lambda: scan(a, b, h0[:1])
    yield "floating-point or complex", lambda: scan(Diagonal(torch.ones(2, 3, 1, 4, dtype=torch.long)))
    yield "packed into one row", lambda: scan(a, b, cu_seqlens=torch.tensor([0, 3]))
    yield "must rise from 0", lambda: scan(one, cu_seqlens=torch.tensor([0, 2]))
    yield "must rise from 0", lambda: scan(one, cu_seqlens=torch.tensor([0, 2, 1, 3]))
    yield "must rise from 0", lambda: scan(one, cu_seqlens=torch.tensor([1, 3]))
    yield "integer dtype", lambda: scan(one, cu_seqlens=torch.tensor([0.0, 3.0]))
    yield "is not one of", lambda: scan(a, backend="cuda")
    index = torch.zeros(2, 3, 1, 4, dtype=torch.long)
    yield "must lie in 0..3", lambda: scan(ColumnOneHot(index + 4, a.value))
    yield "must lie in 0..3", lambda: scan(RowOneHot(index - 1, a.value))


@pytest.mark.parametrize(("message", "call"), [pytest.param(m, c, id=f"{i}-{m}") for i, (m, c) in enumerate(bad_calls())])
def test_bad_calls_are_refused(message, call):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_a_backend_that_cannot_run_says_why():
    with pytest.raises(BackendError, match="no kernel for Dense"):
        scan(Dense(torch.eye(2).expand(1, 2, 1, 2, 2)), backend="cpu")


def test_the_automatic_choice_is_logged(caplog):
    _announce.cache_clear()
    with caplog.at_level(logging.INFO, logger="statetrack.scan"):
        for _ in range(2):
            scan(Diagonal(torch.ones(1, 2, 1, 2)))
            scan(Dense(torch.eye(2).expand(1, 2, 1, 2, 2)))
    assert [r.getMessage().split(" (")[0] for r in caplog.records] == [
        "scan of Diagonal runs on the cpu backend",
        "scan of Dense runs on the reference backend",
    ]
