"""The chunked state-space dual form against the recurrence written out in plain loops."""

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.scan import ssd_scan

LENGTHS = [0, 1, 2, 3, 4, 5, 8, 9, 13]


def example(rows, length, heads=4, groups=2, n=3, p=5, rank=1, sequences=None, dtype=torch.float64, seed=0):
    """Values, log decays, two keys, an initial state and values a token reads for itself."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)

    x, own = normal(rows, length * rank, heads, p), normal(rows, length * rank, heads, p)
    b, c = normal(rows, length * rank, groups, n), normal(rows, length * rank, groups, n)
    initial = normal(rows if sequences is None else sequences, heads, n, p)
    return x, -normal(rows, length, heads).abs(), b, c, initial, own


def loop(x, log_decay, b, c, initial, own=None, rank=1):
    """Outputs and final states, number by number of the definition: one row, head and token after another."""
    own = x if own is None else own
    rows, length, heads = log_decay.shape
    share = heads // b.shape[2]
    y, final = torch.zeros_like(x), initial.clone()
    for row in range(rows):
        for h in range(heads):
            state = initial[row, h]
            for t in range(length):
                kept = torch.exp(log_decay[row, t, h]) * state
                written, seen = kept, kept
                for step in range(t * rank, (t + 1) * rank):
                    key = b[row, step, h // share]
                    written = written + torch.outer(key, x[row, step, h])
                    seen = seen + torch.outer(key, own[row, step, h])
                for step in range(t * rank, (t + 1) * rank):
                    y[row, step, h] = seen.T @ c[row, step, h // share]
                state = written
            final[row, h] = state
    return y, final


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["auto", "chunk", "reference"])
@pytest.mark.parametrize(("rank", "groups", "with_own"), [(1, 1, False), (1, 2, True), (2, 4, False), (3, 2, True)])
def test_outputs_and_final_states_follow_the_recurrence(backend, rank, groups, with_own):
    for length in LENGTHS:
        x, g, b, c, initial, own = example(2, length, groups=groups, rank=rank)
        own = own if with_own else None
        y, final = ssd_scan(x, g, b, c, initial_state=initial, own=own, rank=rank, chunk_size=4, backend=backend)
        expected, expected_final = loop(x, g, b, c, initial, own, rank)
        close(y, expected)
        close(final, expected_final)


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 64])
def test_the_size_of_chunks_changes_nothing(chunk_size):
    x, g, b, c, _, _ = example(2, 13)
    y, final = ssd_scan(x, g, b, c, chunk_size=chunk_size)
    expected, expected_final = loop(x, g, b, c, torch.zeros(2, 4, 3, 5, dtype=torch.float64))
    close(y, expected)
    close(final, expected_final)


@pytest.mark.parametrize("backend", ["chunk", "reference"])
@pytest.mark.parametrize("rank", [1, 2])
def test_packed_documents_equal_a_loop_over_them(backend, rank):
    offsets = [0, 0, 3, 4, 4, 13, 13]
    x, g, b, c, initial, own = example(1, 13, rank=rank, sequences=6)
    packed = torch.tensor(offsets, dtype=torch.int32)
    y, final = ssd_scan(x, g, b, c, initial_state=initial, own=own, rank=rank, cu_seqlens=packed, chunk_size=4, backend=backend)
    for s in range(6):
        once, steps = slice(offsets[s], offsets[s + 1]), slice(offsets[s] * rank, offsets[s + 1] * rank)
        alone = loop(x[:, steps], g[:, once], b[:, steps], c[:, steps], initial[s : s + 1], own[:, steps], rank)
        close(y[:, steps], alone[0])
        close(final[s : s + 1], alone[1])


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_nothing_to_read_leaves_the_states(offsets):
    x, g, b, c, initial, _ = example(1, 0, sequences=len(offsets) - 1)
    y, final = ssd_scan(x, g, b, c, initial_state=initial, cu_seqlens=torch.tensor(offsets))
    assert y.shape == x.shape
    assert torch.equal(final, initial)


def test_any_split_equals_one_pass():
    x, g, b, c, initial, _ = example(2, 9)
    y, final = ssd_scan(x, g, b, c, initial_state=initial, chunk_size=4)
    for k in range(10):
        first, middle = ssd_scan(x[:, :k], g[:, :k], b[:, :k], c[:, :k], initial_state=initial, chunk_size=4)
        second, last = ssd_scan(x[:, k:], g[:, k:], b[:, k:], c[:, k:], initial_state=middle, chunk_size=4)
        close(torch.cat([first, second], 1), y)
        close(last, final)


@pytest.mark.parametrize("backend", ["chunk", "reference"])
@pytest.mark.parametrize(("rank", "with_own", "packed"), [(1, False, True), (2, True, False)])
def test_gradients_are_derivatives(backend, rank, with_own, packed):
    cu_seqlens = torch.tensor([0, 2, 2, 5]) if packed else None
    tensors = example(1, 5, heads=2, groups=1, n=2, p=2, rank=rank, sequences=3 if packed else None)
    tensors = [t.requires_grad_() for t in tensors[: 6 if with_own else 5]]

    def run(x, g, b, c, initial, own=None):
        return ssd_scan(
            x, g, b, c, initial_state=initial, own=own, rank=rank, cu_seqlens=cu_seqlens, chunk_size=2, backend=backend
        )

    assert torch.autograd.gradcheck(run, tensors)


def test_hard_resets_are_exact_and_keep_gradients_finite():
    x, g, b, c, initial, _ = example(2, 13)
    with torch.no_grad():
        g[:, 2], g[:, 6, 1:], g[:, 9], g[:, 10] = -torch.inf, -1e4, 0.0, -1e-12
    tensors = [t.requires_grad_() for t in (x, g, b, c, initial)]
    y, final = ssd_scan(x, g, b, c, initial_state=initial, chunk_size=5)
    with torch.no_grad():
        expected, expected_final = loop(x, g, b, c, initial)
        close(y, expected)
        close(final, expected_final)
    grads = torch.autograd.grad(y.sum() + final.sum(), tensors)
    assert all(grad.isfinite().all() for grad in grads)
    assert grads[-1].any(), "what comes before the reset reads the initial state"
    assert torch.equal(torch.autograd.grad(ssd_scan(x, g, b, c, initial_state=initial)[1].sum(), initial)[0], 0 * initial)


def test_a_strong_decay_does_not_blur_the_weak_ones_behind_it():
    """In single precision, with a decay of e^-100000 in the same chunk: a difference of prefix sums would be off by 1 %."""
    x, g, b, c, initial, _ = example(2, 60)
    g = g * 0.01
    g[:, 5] = -1e5
    exact = loop(x, g, b, c, initial)[0]
    single = [t.float() for t in (x, g, b, c)]
    y = ssd_scan(*single, initial_state=initial.float()).outputs
    budget = (ssd_scan(*single, initial_state=initial.float(), backend="reference").outputs - exact).abs().max()
    assert (y - exact).abs().max() <= 4 * budget
    assert budget < 1e-4


@pytest.mark.parametrize("with_own", [False, True])
def test_later_tokens_and_other_documents_change_no_bit(with_own):
    x, g, b, c, initial, own = example(1, 9, sequences=2)
    arguments = {"own": own if with_own else None, "cu_seqlens": torch.tensor([0, 6, 9]), "chunk_size": 4}
    y, final = ssd_scan(x, g, b, c, initial_state=initial, **arguments)
    changed = [t.clone() for t in (x, g, b, c)]
    for tensor in changed:
        tensor[:, 3:6] -= 1.0
    z, other = ssd_scan(*changed, initial_state=initial, **arguments)
    same = torch.tensor([0, 1, 2, 6, 7, 8])
    assert torch.equal(z[:, same], y[:, same])
    assert torch.equal(other[1], final[1])
    assert not torch.equal(other[0], final[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    x, g, b, c, _, _ = example(1, 20, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16):
        y, final = ssd_scan(x, g, b, c)
    assert y.dtype == final.dtype == torch.float32
    expected, _ = loop(*(t.double() for t in (x, g, b, c)), torch.zeros(1, 4, 3, 5, dtype=torch.float64))
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


def test_memory_layout_does_not_matter():
    x, g, b, c, initial, own = example(2, 9)
    scattered = [t.movedim(0, -1).contiguous().movedim(-1, 0) for t in (x, g, b, c, initial, own)]
    for own_values, values in ((None, scattered), (own, scattered)):
        y, final = ssd_scan(*values[:4], initial_state=values[4], own=None if own_values is None else values[5], chunk_size=4)
        expected, expected_final = ssd_scan(x, g, b, c, initial_state=initial, own=own_values, chunk_size=4)
        close(y, expected)
        close(final, expected_final)


def test_compiles_without_graph_breaks():
    x, g, b, c, initial, own = example(2, 9, rank=2)
    tensors = [t.requires_grad_() for t in (x, g, b, c, initial, own)]

    def run(x, g, b, c, initial, own):
        return ssd_scan(x, g, b, c, initial_state=initial, own=own, rank=2, chunk_size=4)

    torch.compiler.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=False)
    (y, final), (expected, expected_final) = compiled(*tensors), run(*tensors)
    close(y, expected)
    close(final, expected_final)
    for found, wanted in zip(
        torch.autograd.grad(y.sum() + final.sum(), tensors),
        torch.autograd.grad(expected.sum() + expected_final.sum(), tensors),
        strict=True,
    ):
        close(found, wanted)
    torch.compiler.reset()


@pytest.mark.parametrize(
    "change",
    [
        {"x": torch.zeros(2, 4, 3, 5)},
        {"x": torch.zeros(2, 4, 4)},
        {"log_decay": torch.zeros(2, 4, 4, 1)},
        {"b": torch.zeros(2, 4, 2, 2)},
        {"b": torch.zeros(2, 4, 3, 3), "c": torch.zeros(2, 4, 3, 3)},
        {"c": torch.zeros(2, 3, 2, 3)},
        {"own": torch.zeros(2, 4, 4, 4)},
        {"initial_state": torch.zeros(1, 4, 3, 5)},
        {"x": torch.zeros(2, 4, 4, 5, dtype=torch.complex64)},
        {"rank": 2},
        {"rank": 0},
        {"chunk_size": 0},
        {"backend": "cpu"},
        {"cu_seqlens": torch.tensor([0, 4])},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change):
    x, g, b, c, _, _ = example(2, 4)
    with pytest.raises(InvalidInputError):
        ssd_scan(**{"x": x, "log_decay": g, "b": b, "c": c, **change})
