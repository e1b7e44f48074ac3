"""Memory, layout, repeatability, threads, registration and compilation of the scans."""

import itertools

import pytest
import torch

from statetrack.scan import scan, straight_through
from statetrack.scan.cpu import ops, routed
from statetrack.scan.mixture import mixture_choice, mixture_credit, mixture_lift
from statetrack.structures import ColumnOneHot, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot

KERNELS = [Diagonal, ColumnOneHot, RowOneHot]
FORMS = ["diagonal", "column", "row", "routed full", "routed active", "mixed"]


def problem(form, dtype=torch.complex64, length=33, n=6, heads=2, rows=3):
    """A callable that scans on the given backend, and its differentiable sources."""
    g = torch.Generator().manual_seed(0)
    real = torch.empty(0, dtype=dtype).real.dtype

    def normal(*shape, kind=dtype):
        return torch.randn(shape, generator=g, dtype=kind).requires_grad_()

    batch = (rows, length, heads)
    value, b, h0 = normal(*batch, n), normal(*batch, n), normal(rows, heads, n)
    index = torch.randint(n, (*batch, n), generator=g)
    scores, logits = normal(heads, 3, n, n, kind=real), normal(*batch, 3, kind=real)

    def transitions():
        if form == "mixed":
            return MixedOneHot(scores, logits.softmax(-1), value)
        if form.startswith("routed"):
            choices = straight_through(scores, -2), straight_through(logits, -1)
            return RoutedOneHot(scores.argmax(-2), logits.argmax(-1), value, "column", *choices, form.endswith("full"))
        return {"diagonal": lambda: Diagonal(value), "column": lambda: ColumnOneHot(index, value)}.get(
            form, lambda: RowOneHot(index, value)
        )()

    sources = [value, b, h0] + ([scores, logits] if form in FORMS[3:] else [])
    return (lambda backend: scan(transitions(), b, h0, backend=backend)), sources


def outcome(form, backend, **sizes):
    """States, final states and all gradients."""
    run, sources = problem(form, **sizes)
    states, final = run(backend)
    total = states.abs().square().sum() + final.abs().square().sum()
    return [states.detach(), final.detach(), *torch.autograd.grad(total, sources)]


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["cpu", "tree", "reference"])
def test_two_runs_are_bit_equal(form, backend):
    assert_same(outcome(form, backend), outcome(form, backend))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_the_number_of_threads_changes_no_bit(form, dtype, monkeypatch):
    """Of what the loops compute; credit of all alternatives is summed by torch's matrix products, which cut long sums."""
    monkeypatch.setattr("statetrack.scan.cpu.threads.LEAST", 1)
    sizes = {"dtype": dtype, "length": 600, "n": 32, "heads": 1, "rows": 8}
    one = outcome(form, "cpu", **sizes)
    try:
        torch.set_num_threads(2)
        two = outcome(form, "cpu", **sizes)
    finally:
        torch.set_num_threads(1)
    exact = 5 if form in ("routed full", "mixed") else len(one)
    assert_same(one[:exact], two[:exact])
    for a, b in zip(one[exact:], two[exact:], strict=True):
        assert (a - b).abs().max() <= 1e-5 * a.abs().max()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["cpu", "tree", "reference"])
def test_allocations_are_never_read_before_they_are_written(form, backend, monkeypatch):
    """Every empty tensor is filled with NaN, or with the largest integer."""
    expected = outcome(form, backend)

    def poisoned(allocate):
        def run(*args, **kwargs):
            out = allocate(*args, **kwargs)
            if out.is_floating_point() or out.is_complex():
                return out.fill_(torch.nan)
            return out.fill_(torch.iinfo(out.dtype).max) if out.dtype != torch.bool else out

        return run

    monkeypatch.setattr(torch, "empty", poisoned(torch.empty))
    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))
    assert_same(outcome(form, backend), expected)


@pytest.mark.parametrize("structure", KERNELS)
@pytest.mark.parametrize("backend", ["cpu", "tree"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_any_memory_layout_gives_the_same(oracle, structure, backend, dtype):
    a, b, h0 = oracle.example(structure, (3, 5, 2), 4, dtype)

    def scattered(x):
        return x.movedim(0, -1).contiguous().movedim(-1, 0)

    def strided(x):
        wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]

    expected = scan(a, b, h0, backend=backend)
    for change in (scattered, strided):
        before = [change(t).clone() for t in (a.values, b, h0)]
        tensors = [change(t) for t in (a.values, b, h0)]
        moved = type(a)(**{key: change(value) for key, value in vars(a).items()} | {"value": tensors[0]})
        found = scan(moved, tensors[1], tensors[2], backend=backend)
        for x, y in zip(found, expected, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)
        assert_same(tensors, before)
    one = a[:1].map_batch(lambda t, _: t.expand(3, *t.shape[1:]))
    spread = scan(one, b[:1].expand_as(b), h0[:1].expand_as(h0), backend=backend)
    torch.testing.assert_close(spread.states, expected.states[:1].expand_as(b), rtol=1e-13, atol=1e-13)
    if dtype.is_complex:
        conjugate = scan(type(a)(**{**vars(a), "value": a.value.conj()}), b.conj(), h0.conj(), backend=backend)
        torch.testing.assert_close(conjugate.states, expected.states.conj(), rtol=1e-13, atol=1e-13)


def test_results_share_no_memory_with_arguments():
    a, h0 = Diagonal(torch.ones(2, 0, 1, 3)), torch.zeros(2, 1, 3)
    final = scan(a, None, h0, backend="cpu").final
    final += 1
    assert (h0 == 0).all()


def flat_arguments(dtype):
    g = torch.Generator().manual_seed(1)
    tokens, heads, n, documents, entries = 5, 2, 3, 3, 2

    def normal(*shape, kind=dtype):
        return torch.randn(shape, generator=g, dtype=kind).requires_grad_()

    real = torch.empty(0, dtype=dtype).real.dtype
    return {
        "value": normal(tokens, heads, n),
        "inputs": normal(tokens, heads, n),
        "initial": normal(documents, heads, n),
        "offsets": torch.tensor([0, 2, 2, 5]),
        "maps": torch.randint(n, (4, n), generator=g, dtype=torch.int16),
        "rows": torch.randint(4, (tokens, heads), generator=g),
        "dictionary": torch.randint(n, (heads, entries, n), generator=g, dtype=torch.int16),
        "route": torch.randint(entries, (tokens, heads), generator=g),
        "selection": normal(heads, entries, n, n, kind=real),
        "routing": normal(tokens, heads, entries, kind=real),
        "scores": normal(heads, entries, n, n, kind=real),
        "mix": normal(tokens, heads, entries, kind=real),
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_custom_ops_are_registered_properly(dtype):
    """Schema, fake tensors, autograd registration and dynamic shapes of every op."""
    a = flat_arguments(dtype)
    tail = a["inputs"], a["initial"], a["offsets"]
    for inputs in (a["inputs"], None):
        torch.library.opcheck(ops.diagonal_scan, (a["value"], inputs, *tail[1:]))
        for column in (True, False):
            torch.library.opcheck(ops.one_hot_scan, (a["maps"], a["rows"], a["value"], inputs, *tail[1:], column))
    choices = a["selection"], a["routing"]
    states, final = (t.detach() for t in ops.diagonal_scan(a["value"], *tail))
    value, initial = a["value"].detach(), a["initial"].detach()
    torch.library.opcheck(ops.diagonal_scan_backward, (value, states, initial, a["offsets"], states, final))
    one_hot = a["maps"], a["rows"], value, states, initial, a["offsets"], True, states, final
    torch.library.opcheck(ops.one_hot_scan_backward, one_hot)
    for full, routing in itertools.product((True, False), (choices[1], None)):
        picked = choices[0], routing
        torch.library.opcheck(routed.routed_scan, (a["dictionary"], a["route"], a["value"], *tail, *picked, True, full))
        switches = True, full, routing is not None
        backward = a["dictionary"], a["route"], value, states, initial, a["offsets"], *switches, states, final
        torch.library.opcheck(routed.routed_scan_backward, backward)
    scores, mix = a["scores"].detach(), a["mix"].detach()
    for dim in (-2, -1):
        torch.library.opcheck(mixture_choice, (scores, mix, dim))
        torch.library.opcheck(mixture_lift, (a["scores"], a["mix"], value, dim))
        torch.library.opcheck(mixture_credit, (scores, mix, value, states, dim))


@pytest.mark.parametrize("form", FORMS)
def test_compiled_equals_eager(form):
    run, sources = problem(form, dtype=torch.complex128, length=7)
    torch.compiler.reset()
    compiled = torch.compile(lambda: run("auto"), fullgraph=True, backend="aot_eager")
    outcomes = []
    for states, final in (compiled(), run("auto")):
        total = states.abs().square().sum() + final.abs().square().sum()
        outcomes.append([states, final, *torch.autograd.grad(total, sources)])
    torch.compiler.reset()
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
