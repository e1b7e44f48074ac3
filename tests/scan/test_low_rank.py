"""The low-rank scan against its recurrence, written out step by step with dense matrices in float64."""

import itertools

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.scan import low_rank_scan
from statetrack.scan.decay import ChannelDecay, HeadDecay

BACKENDS = ["reference", "chunk"]
DECAYS = [None, "head", "channel"]


def loop(q, k, v, x, y, log_decay, initial, substeps=1, offsets=None):
    """Outputs and final states by dense ``K x K`` matrices, one step after another."""
    rows, length, heads, keys = q.shape
    outputs = q.new_zeros(rows, length, heads, v.shape[-1])
    offsets = [0, length] if offsets is None else offsets
    finals = initial.clone()
    for b, h in itertools.product(range(rows), range(heads)):
        for s, (start, stop) in enumerate(itertools.pairwise(offsets)):
            row = b if len(offsets) == 2 else s
            state = initial[row, h]
            for t in range(start, stop):
                for i in range(t * substeps, (t + 1) * substeps):
                    w = q.new_ones(keys)
                    if log_decay is not None and i == t * substeps:
                        w = w * torch.exp(log_decay[b, t, h])
                    left = -k[b, i, h] if x is None else x[b, i, h]
                    transition = torch.diag(w) + torch.outer(left, y[b, i, h])
                    state = transition @ state + torch.outer(k[b, i, h], v[b, i, h])
                outputs[b, t, h] = state.mT @ q[b, t, h]
            finals[row, h] = state
    return outputs, finals


def example(rows, length, heads=2, keys=3, values=4, *, decay=None, delta=True, substeps=1, states=None, seed=0):
    """Arguments in float64, scaled such that products of transitions stay moderate."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    steps = (rows, length * substeps, heads)
    q, k, v, y = normal(rows, length, heads, keys), 0.5 * normal(*steps, keys), normal(*steps, values), 0.5 * normal(*steps, keys)
    x = None if delta else 0.5 * normal(*steps, keys)
    shape = (rows, length, heads) if decay == "head" else (rows, length, heads, keys)
    log_decay = None if decay is None else -normal(*shape).abs()
    return q, k, v, x, y, log_decay, normal(states or rows, heads, keys, values)


def run(arguments, **options):
    q, k, v, x, y, log_decay, initial = arguments
    return low_rank_scan(q, k, v, x, y, log_decay=log_decay, initial_state=initial, **options)


def close(actual, expected, tolerance=1e-10):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("delta", [True, False])
def test_outputs_and_states_follow_the_recurrence(backend, decay, delta):
    for length, substeps, chunk_size in ((1, 1, 8), (1, 3, 8), (5, 1, 1), (7, 1, 3), (6, 2, 4), (5, 3, 7), (9, 1, 100)):
        arguments = example(2, length, decay=decay, delta=delta, substeps=substeps)
        expected = loop(*arguments, substeps)
        close(run(arguments, substeps=substeps, chunk_size=chunk_size, backend=backend), expected)


def test_chunks_longer_than_a_block_of_the_triangular_system():
    arguments = example(1, 40, heads=1, decay="channel", delta=False)
    close(run(arguments, chunk_size=37, backend="chunk"), loop(*arguments))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decay", DECAYS)
def test_packed_documents_equal_a_loop_over_them(backend, decay):
    offsets = [0, 0, 5, 6, 6, 13, 15, 15]
    for substeps, chunk_size in ((1, 3), (2, 8)):
        arguments = example(1, 15, decay=decay, delta=decay != "head", substeps=substeps, states=7)
        expected = loop(*arguments, substeps, offsets)
        cu_seqlens = torch.tensor(offsets, dtype=torch.int32)
        found = run(arguments, cu_seqlens=cu_seqlens, substeps=substeps, chunk_size=chunk_size, backend=backend)
        close(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_crosses_a_border(backend):
    arguments, cu_seqlens = example(1, 12, decay="channel", states=3), torch.tensor([0, 5, 7, 12])
    outputs, final = run(arguments, cu_seqlens=cu_seqlens, chunk_size=4, backend=backend)
    poisoned = [a if a is None else a.clone() for a in arguments]
    for tensor in poisoned[:3]:
        tensor[:, 5:7] = torch.nan
    poisoned[6][1] = torch.nan
    others, others_final = run(poisoned, cu_seqlens=cu_seqlens, chunk_size=4, backend=backend)
    for part in (slice(0, 5), slice(7, 12)):
        assert torch.equal(others[:, part], outputs[:, part])
    assert torch.equal(others_final[::2], final[::2])
    assert others[:, 5:7].isnan().all()


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_equal_autograd_through_the_loop(decay, delta, packed):
    offsets = [0, 3, 3, 7] if packed else None
    substeps = 1 if packed else 2
    arguments = example(1 if packed else 2, 7, decay=decay, delta=delta, substeps=substeps, states=3 if packed else None, seed=1)
    sources = [a.requires_grad_() for a in arguments if a is not None]
    cu_seqlens = torch.tensor(offsets) if packed else None
    g = torch.Generator().manual_seed(2)
    expected = loop(*arguments, substeps, offsets)
    cotangents = [torch.randn(e.shape, generator=g, dtype=e.dtype) for e in expected]
    wanted = torch.autograd.grad(expected, sources, cotangents)
    for chunk_size in (3, 64):
        found = run(arguments, cu_seqlens=cu_seqlens, substeps=substeps, chunk_size=chunk_size, backend="chunk")
        close(torch.autograd.grad(found, sources, cotangents), wanted)


def test_gradients_are_derivatives():
    q, k, v, x, y, log_decay, initial = (a.requires_grad_() for a in example(1, 3, 1, 2, 2, decay="channel", delta=False))

    def scanned(q, k, v, x, y, log_decay, initial):
        return low_rank_scan(q, k, v, x, y, log_decay=log_decay, initial_state=initial, chunk_size=2, backend="chunk")

    assert torch.autograd.gradcheck(scanned, (q, k, v, x, y, log_decay, initial))


@pytest.mark.parametrize("decay", ["head", "channel"])
@pytest.mark.parametrize("strength", [-50.0, -1e4, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_strong_decays_neither_overflow_nor_cancel(decay, strength, dtype):
    """Some tokens forget almost everything; what the others keep must not lose digits to them."""
    arguments = list(example(1, 24, decay=decay, delta=False))
    arguments[5] = arguments[5] * 0.01
    arguments[5][:, ::5] = strength
    if decay == "channel":
        arguments[5][:, 3::4, :, 1] = strength
    expected = loop(*arguments)
    sources = [a.to(dtype).requires_grad_() for a in arguments]
    found = run(sources, chunk_size=16, backend="chunk")
    close([f.double() for f in found], expected, 2e-5 if dtype == torch.float32 else 1e-10)
    for grad in torch.autograd.grad([f.sum() for f in found], sources):
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("decay", [HeadDecay, ChannelDecay])
def test_weights_are_zero_or_far_from_subnormal(decay):
    """Subnormal numbers would be slow."""
    shape = (1, 100) if decay is HeadDecay else (1, 100, 2)
    decays = decay(torch.full(shape, -1.1))
    one = torch.ones(1, 100, 2)
    tiny = torch.finfo(torch.float32).tiny
    for weights, bound in ((decays.since_start, tiny**0.5), (decays.until_end, tiny**0.5), (decays.products(one, one), tiny)):
        assert ((weights == 0) | (weights >= bound)).all()
        assert (weights == 0).any()
        assert (weights > 0.1).any()


@pytest.mark.parametrize("decay", DECAYS)
def test_single_precision_stays_within_the_error_budget(decay):
    """Against double precision, no more than three times the error of the sequential form in single precision."""
    arguments = list(example(2, 200, keys=8, decay=decay))
    arguments[1] = torch.nn.functional.normalize(arguments[1], dim=-1)
    arguments[4] = 1.8 * arguments[1]
    if decay:
        arguments[5] = 0.01 * arguments[5]
    exact = run(arguments, backend="reference")
    single = [None if a is None else a.float() for a in arguments]
    errors = {}
    for backend in BACKENDS:
        found = run(single, backend=backend)
        errors[backend] = max((f.double() - e).abs().max() for f, e in zip(found, exact, strict=True))
    assert errors["chunk"] <= 3 * errors["reference"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_twenty_thousand_swaps_are_exact(backend):
    """``I - (e_i - e_j)(e_i - e_j)^T`` swaps two places, in integers."""
    n, length = 5, 20_000 if backend == "chunk" else 500
    g = torch.Generator().manual_seed(0)
    pairs = torch.rand(length, n, generator=g).argsort(-1)[:, :2]
    k = torch.zeros(length, n).scatter(1, pairs, torch.tensor([[1.0, -1.0]]).expand(length, 2)).view(1, length, 1, n)
    q, v = torch.zeros(1, length, 1, n), torch.zeros(1, length, 1, n)
    q[..., 0] = 1
    outputs, final = low_rank_scan(q, k, v, None, k, initial_state=torch.eye(n).view(1, 1, n, n), backend=backend)
    order = list(range(n))
    for t, (i, j) in enumerate(pairs.tolist()):
        order[i], order[j] = order[j], order[i]
        assert outputs[0, t, 0].tolist() == [float(c == order[0]) for c in range(n)]
    assert final[0, 0].argmax(-1).tolist() == order


@pytest.mark.parametrize("backend", BACKENDS)
def test_orthogonal_keys_recall_their_values(backend):
    """One write of strength 1 per key is read back exactly, and a second write takes its place."""
    k = torch.eye(4).repeat(2, 1).view(1, 8, 1, 4)
    v = torch.arange(16.0).view(1, 8, 1, 2)
    outputs, final = low_rank_scan(k, k, v, None, k, backend=backend)
    assert torch.equal(outputs, v)
    assert torch.equal(final[0, 0], v[0, 4:, 0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decay", DECAYS)
def test_empty_dimensions(backend, decay):
    for rows, length, heads in ((0, 4, 2), (2, 0, 2), (2, 4, 0), (0, 0, 0)):
        arguments = example(rows, length, heads, decay=decay)
        outputs, final = run(arguments, backend=backend)
        assert outputs.shape == (rows, length, heads, 4)
        assert final.shape == (rows, heads, 3, 4)
        if not length:
            assert torch.equal(final, arguments[-1])
    for offsets in ([0], [0, 0, 0]):
        states = len(offsets) - 1
        outputs, final = run(
            (*example(1, 0, decay=decay)[:6], torch.ones(states, 2, 3, 4)), cu_seqlens=torch.tensor(offsets), backend=backend
        )
        assert outputs.shape == (1, 0, 2, 4)
        assert torch.equal(final, torch.ones_like(final))


@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_is_computed_in_float32(backend):
    single = [None if a is None else a.bfloat16() for a in example(1, 9, decay="head")]
    outputs, final = run(single, backend=backend)
    assert outputs.dtype == final.dtype == torch.float32
    exact = run([None if a is None else a.double() for a in single], backend=backend)
    close([outputs.double(), final.double()], exact, 1e-5)


def test_compiles_without_graph_breaks():
    arguments = example(1, 3, decay="channel", delta=False)
    sources = [a.requires_grad_() for a in arguments]

    def total(*given):
        outputs, final = run(given, chunk_size=2)
        return outputs.square().sum() + final.sum()

    torch.compiler.reset()
    compiled = torch.compile(total, fullgraph=True, backend="aot_eager", dynamic=False)
    close(*(torch.autograd.grad(f(*arguments), sources) for f in (compiled, total)))
    torch.compiler.reset()


def bad_calls():
    q, k, v, x, y, _, initial = example(2, 3)
    yield "q needs shape", lambda: low_rank_scan(q[0], k, v, x, y)
    yield "k needs shape", lambda: low_rank_scan(q, k[:, :2], v, x, y)
    yield "k needs shape", lambda: low_rank_scan(q, k, v, x, y, substeps=2)
    yield "x needs shape", lambda: low_rank_scan(q, k, v, y[..., :2], y)
    yield "y needs shape", lambda: low_rank_scan(q, k, v, x, y[:1])
    yield "v needs shape", lambda: low_rank_scan(q, k, v[:, :, :1], x, y)
    yield "log_decay needs shape", lambda: low_rank_scan(q, k, v, x, y, log_decay=q[..., :2])
    yield "initial_state needs shape", lambda: low_rank_scan(q, k, v, x, y, initial_state=initial[:1])
    yield "floating-point", lambda: low_rank_scan(q, k, v.long(), x, y)
    yield "at least 1", lambda: low_rank_scan(q, k, v, x, y, chunk_size=0)
    yield "is not one of", lambda: low_rank_scan(q, k, v, x, y, backend="tree")
    yield "packed into one row", lambda: low_rank_scan(q, k, v, x, y, cu_seqlens=torch.tensor([0, 3]))


@pytest.mark.parametrize(("message", "call"), [pytest.param(m, c, id=f"{i}-{m}") for i, (m, c) in enumerate(bad_calls())])
def test_bad_calls_are_refused(message, call):
    with pytest.raises(InvalidInputError, match=message):
        call()
