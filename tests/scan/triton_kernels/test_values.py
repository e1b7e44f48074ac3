"""Values of the kernels against the dense loop in double precision."""

from dataclasses import replace

import pytest
import torch

from statetrack.scan import scan
from statetrack.structures import ColumnOneHot, Diagonal, RoutedOneHot, RowOneHot

pytest.importorskip("triton", reason="triton is not installed")
from statetrack.scan.triton.dispatch import scan_on_gpu

FORMS = [Diagonal, RowOneHot, ColumnOneHot]
R, C = torch.float64, torch.complex128
CHUNK = 2


def cases(first, *dtypes):
    """Every form in every dtype; by default only those named by ``first``, because the interpreter is slow."""
    pairs = [(form, dtype) for form in FORMS for dtype in dtypes]
    return [pytest.param(*pair, marks=[] if pair in first else pytest.mark.slow) for pair in pairs]


def on(device, x):
    """A tensor, a structure or None on a device."""
    if x is None or isinstance(x, torch.Tensor):
        return None if x is None else x.to(device)
    return replace(x, **{name: t.to(device) for name, t in vars(x).items() if isinstance(t, torch.Tensor)})


def run(device, a, b, h0, offsets=None, chunk=CHUNK):
    """The kernels, in chunks of a few tokens."""
    offsets = None if offsets is None else torch.tensor(offsets)
    return [x.cpu() for x in scan_on_gpu(on(device, a), on(device, b), on(device, h0), offsets, chunk=chunk)]


def close(found, expected, tolerance=1e-12):
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("form", "dtype"), cases([(Diagonal, R), (RowOneHot, C), (ColumnOneHot, C)], R, C))
def test_states_equal_the_dense_loop(oracle, device, form, dtype):
    """Two rows, two heads, a width that is no power of two, and chunks that do not divide the length."""
    a, b, h0 = oracle.example(form, (2, 3, 2), 3, dtype)
    close(run(device, a, b, h0), oracle.loop(oracle.dense(a), b, h0))
    close(run(device, a, None, h0), oracle.loop(oracle.dense(a), None, h0))


@pytest.mark.parametrize("form", FORMS)
def test_any_length(oracle, device, form):
    for length in (0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 7):
        a, b, h0 = oracle.example(form, (1, length, 1), 4, torch.complex128)
        close(run(device, a, b, h0), oracle.loop(oracle.dense(a), b, h0))


@pytest.mark.parametrize("form", FORMS)
def test_any_split_equals_one_pass(oracle, device, form):
    length = 2 * CHUNK + 1
    a, b, h0 = oracle.example(form, (1, length, 1), 4, torch.complex128)
    states, final = run(device, a, b, h0)
    close((states, final), oracle.loop(oracle.dense(a), b, h0))
    for k in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, length):
        first, middle = run(device, a[:, :k], b[:, :k], h0)
        second, last = run(device, a[:, k:], b[:, k:], middle)
        close((torch.cat([first, second], 1), last), (states, final))


@pytest.mark.parametrize("form", FORMS)
def test_packed_documents_equal_a_loop_and_do_not_leak(oracle, device, form):
    offsets = [0, 0, 5, 6, 6, 9, 9]
    a, b, _ = oracle.example(form, (1, 9, 1), 3, torch.complex128)
    h0 = torch.randn(6, 1, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    packed = run(device, a, b, h0, offsets, chunk=2)
    close(packed, oracle.loop(oracle.dense(a), b, h0, offsets))
    b[:, :5] += 1.0
    changed = run(device, a, b, h0, offsets, chunk=2)
    assert torch.equal(changed[0][:, 5:], packed[0][:, 5:])
    assert not torch.equal(changed[0][:, :5], packed[0][:, :5])
    close(run(device, a, b, h0, offsets, chunk=9), oracle.loop(oracle.dense(a), b, h0, offsets))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(0, 4, 2), (2, 4, 0), (0, 0, 0), (2, 0, 1), (1, 1, 1)])
def test_empty_dimensions(oracle, device, form, shape):
    a, b, h0 = oracle.example(form, shape, 2, torch.float64)
    states, final = run(device, a, b, h0)
    assert states.shape == (*shape, 2)
    close((states, final), oracle.loop(oracle.dense(a), b, h0))


def test_no_documents_at_all(device):
    a = on(device, Diagonal(torch.ones(1, 0, 2, 3)))
    states, final = scan(a, cu_seqlens=torch.tensor([0]), backend="triton")
    assert states.shape == (1, 0, 2, 3)
    assert final.shape == (0, 2, 3)


@pytest.mark.parametrize(
    ("form", "dtype"),
    cases(
        [(Diagonal, torch.float32), (RowOneHot, torch.complex64), (ColumnOneHot, torch.float32)], torch.float32, torch.complex64
    ),
)
def test_single_precision_stays_within_the_error_budget(oracle, device, form, dtype):
    """Mean square error against the double-precision oracle: no more than three times that of the loop in the same precision."""
    double = torch.complex128 if dtype.is_complex else torch.float64
    a, b, h0 = oracle.example(form, (1, 24, 1), 4, double)
    a = replace(a, value=a.value / a.value.abs() * 0.99)
    exact = oracle.loop(oracle.dense(a), b, h0)[0]
    single = replace(a, value=a.value.to(dtype))
    same = oracle.loop(oracle.dense(single), b.to(dtype), h0.to(dtype))[0]
    found = run(device, single, b.to(dtype), h0.to(dtype), chunk=8)[0]
    assert found.dtype == dtype
    error, allowed = ((x.to(double) - exact).abs().square().mean().sqrt() for x in (found, same))
    assert error <= 3 * allowed


@pytest.mark.parametrize(("orientation", "dtype"), [("column", C), ("row", R)])
def test_routed_maps_scan_like_their_expansion(oracle, device, orientation, dtype):
    """Among them a permutation and a map that sends all states to one."""
    g = torch.Generator().manual_seed(0)
    value, b = (torch.randn(2, 5, 2, 4, generator=g, dtype=dtype) for _ in range(2))
    h0 = torch.randn(2, 2, 4, generator=g, dtype=dtype)
    dictionary = torch.randint(4, (2, 3, 4), generator=g)
    dictionary[0, 0], dictionary[1, 1] = torch.tensor([2, 0, 3, 1]), 2
    a = RoutedOneHot(dictionary, torch.randint(3, (2, 5, 2), generator=g), value, orientation)
    close(run(device, a, b, h0), oracle.loop(oracle.dense(a.expand()), b, h0))


@pytest.mark.parametrize("form", [ColumnOneHot, RowOneHot])
def test_products_of_permutations_are_exact(device, form):
    n, length = 6, 100_000 if device.type == "cuda" else 24
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(length, n, generator=generator).argsort(-1)
    h0 = torch.randn(n, generator=generator)
    transitions = form(maps.view(1, length, 1, n), torch.ones(1, length, 1, n))
    states, final = run(device, transitions, None, h0.view(1, 1, n), chunk=8)
    place = list(range(n))
    for step in maps.tolist():
        place = [step[p] for p in place] if form is ColumnOneHot else [place[p] for p in step]
    expected = torch.empty(n)
    if form is ColumnOneHot:
        expected[place] = h0
    else:
        expected = h0[place]
    assert torch.equal(final[0, 0], expected)
    assert torch.equal(states[0, -1, 0], expected)


@pytest.mark.parametrize(("form", "half"), cases([(f, torch.bfloat16) for f in FORMS], torch.bfloat16, torch.float16))
def test_half_precision_is_read_as_it_is_and_accumulated_in_float32(oracle, device, form, half):
    a, b, h0 = oracle.example(form, (1, 4, 1), 4, torch.float32)
    a, b = replace(a, value=a.value.to(half)), b.to(half)
    states = scan(on(device, a), on(device, b), on(device, h0), backend="triton").states.cpu()
    assert states.dtype == torch.float32
    wide = replace(a, value=a.value.double())
    torch.testing.assert_close(states.double(), oracle.loop(oracle.dense(wide), b.double(), h0.double())[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_offsets_beyond_31_bits(oracle, device, form):
    """The second token lies more than 2^31 elements behind the first; only the pages that are touched exist."""
    a, b, h0 = oracle.example(form, (1, 2, 1), 4, torch.float32)
    far = torch.empty((1 << 31) + 8, dtype=torch.bfloat16, device=device).as_strided((1, 2, 1, 4), (1 << 32, 1 << 31, 4, 1))
    far.copy_(b)
    expected = oracle.loop(oracle.dense(a).double(), far.cpu().double(), h0.double())
    found = run(device, a, far, h0)
    close([x.double() for x in found], expected, 1e-5)
