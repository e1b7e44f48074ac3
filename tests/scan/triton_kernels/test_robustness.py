"""Memory, layout, repeatability, registration and compilation of the kernels."""

from dataclasses import replace

import pytest
import torch

from statetrack.scan import scan, straight_through
from statetrack.structures import ColumnOneHot, Diagonal, RoutedOneHot, RowOneHot

pytest.importorskip("triton", reason="triton is not installed")
from statetrack.scan.triton import ops
from statetrack.scan.triton.dispatch import scan_on_gpu

R, C = torch.float64, torch.complex128
LAYOUTS = [
    pytest.param(form, dtype, marks=[] if (form is RowOneHot) == (dtype is R) else pytest.mark.slow)
    for form in (Diagonal, RowOneHot, ColumnOneHot)
    for dtype in (R, C)
]


def routed(device, orientation="column"):
    """A credited dictionary scan and its sources, documents of every length, on a device."""
    g = torch.Generator().manual_seed(0)
    dim = -2 if orientation == "column" else -1
    scores = torch.randn(1, 2, 3, 3, generator=g).to(device).requires_grad_()
    logits = torch.randn(1, 4, 1, 2, generator=g).to(device).requires_grad_()
    value, b = (torch.randn(1, 4, 1, 3, generator=g, dtype=torch.complex64).to(device).requires_grad_() for _ in range(2))
    h0 = torch.randn(3, 1, 3, generator=g, dtype=torch.complex64).to(device).requires_grad_()
    a = RoutedOneHot(
        scores.argmax(dim), logits.argmax(-1), value, orientation, straight_through(scores, dim), straight_through(logits, -1)
    )
    return a, b, h0, torch.tensor([0, 3, 3, 4]), [value, b, h0, scores, logits]


def outcome(device, orientation="column", recompute=True):
    """States, final states and all gradients, in chunks, with every kernel involved."""
    a, b, h0, offsets, sources = routed(device, orientation)
    states, final = scan_on_gpu(a, b, h0, offsets, chunk=2, recompute=recompute)
    total = states.abs().square().sum() + final.abs().square().sum()
    return [states.detach(), final.detach(), *torch.autograd.grad(total, sources)]


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_two_runs_are_bit_equal_and_read_only_what_was_written(device, orientation, monkeypatch):
    """The second run finds NaN, or the largest integer, in every empty tensor."""
    expected = outcome(device, orientation)

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
    assert all(torch.isfinite(torch.view_as_real(x) if x.is_complex() else x).all() for x in expected)
    assert_same(outcome(device, orientation), expected)


@pytest.mark.parametrize(("form", "dtype"), LAYOUTS)
def test_any_memory_layout_gives_the_same(oracle, device, form, dtype):
    """Transposed, strided, misaligned, expanded and lazily conjugated arguments; none is changed."""
    a, b, h0 = oracle.example(form, (2, 3, 1), 4, dtype)

    def scattered(x):
        return x.movedim(0, -1).contiguous().movedim(-1, 0)

    def strided(x):
        wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]

    def shifted(x):
        wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 1, dtype=x.dtype)
        wide[..., 1:] = x
        return wide[..., 1:]

    def run(a, b, h0):
        moved = replace(a, **{name: t.to(device) for name, t in vars(a).items()})
        return [x.cpu() for x in scan_on_gpu(moved, b.to(device), h0.to(device), None, chunk=2)]

    expected = oracle.loop(oracle.dense(a), b, h0)
    for change in (scattered, strided, shifted):
        tensors = [change(t) for t in (a.values, b, h0)]
        before = [t.clone() for t in tensors]
        found = run(replace(a, **{name: change(t) for name, t in vars(a).items()} | {"value": tensors[0]}), *tensors[1:])
        for x, y in zip(found, expected, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)
        assert_same(tensors, before)
    constant = a.map_batch(lambda t, _: t[:1, :1].expand_as(t))
    spread = run(constant, b[:1].expand_as(b), h0[:1].expand_as(h0))[0]
    truth = oracle.loop(oracle.dense(constant), b[:1].expand_as(b), h0[:1].expand_as(h0))[0]
    torch.testing.assert_close(spread, truth, rtol=1e-13, atol=1e-13)
    if dtype.is_complex:
        conjugate = run(replace(a, value=a.value.conj()), b.conj(), h0.conj())[0]
        torch.testing.assert_close(conjugate, expected[0].conj(), rtol=1e-13, atol=1e-13)


def test_results_share_no_memory_with_arguments(device):
    h0 = torch.zeros(2, 1, 3, device=device)
    final = scan(Diagonal(torch.ones(2, 0, 1, 3, device=device)), None, h0, backend="triton").final
    final += 1
    assert (h0 == 0).all()


def test_custom_ops_are_registered_properly(device):
    """Schema, fake tensors, autograd registration and dynamic shapes of both ops."""
    a, b, h0, offsets, sources = routed(device)
    value, inputs = a.value.detach()[0].requires_grad_(), b.detach()[0].requires_grad_()
    h0 = h0.detach().requires_grad_()
    scores, logits = (x.detach() for x in sources[3:])
    selection, routing = straight_through(scores, -2).requires_grad_(), straight_through(logits, -1)[0].requires_grad_()
    maps, routes = a.dictionary.to(torch.int16).flatten(0, 1), a.route[0]
    nothing = (None,) * 4
    torch.library.opcheck(
        ops.triton_scan, (value, inputs, h0.detach()[:2].requires_grad_(), None, *nothing, "diagonal", True, 1, True)
    )
    everything = inputs, h0, offsets.to(device), maps, routes, selection, routing, "column", True, 2, True
    torch.library.opcheck(ops.triton_scan, (value, *everything))
    states, final, carry = (x.detach() for x in ops.triton_scan(value, *everything))
    plain = [x.detach() for x in (value, inputs, h0)]
    tail = offsets.to(device), maps, routes
    for kept, flags in (((states, None), (torch.complex64, True, True)), ((None, carry), (None, False, False))):
        arguments = (*plain, *tail, *kept, states, final, "column", True, 2, *flags)
        torch.library.opcheck(ops.triton_scan_backward, arguments)


@pytest.mark.parametrize("form", [pytest.param("diagonal", marks=pytest.mark.slow), "routed"])
def test_compiled_equals_eager(oracle, device, form):
    if form == "routed":
        _, b, h0, offsets, sources = routed(device)

        def run():
            a = RoutedOneHot(
                sources[3].argmax(-2),
                sources[4].argmax(-1),
                sources[0],
                "column",
                straight_through(sources[3], -2),
                straight_through(sources[4], -1),
            )
            return scan(a, b, h0, cu_seqlens=offsets.to(device), backend="triton", save="carries")
    else:
        a, b, h0 = oracle.example(Diagonal, (1, 4, 2), 3, torch.float64)
        sources = [x.to(device).requires_grad_() for x in (a.value, b, h0)]

        def run():
            return scan(Diagonal(sources[0]), sources[1], sources[2], backend="triton")

    torch.compiler.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    outcomes = []
    for states, final in (compiled(), run()):
        total = states.abs().square().sum() + final.abs().square().sum()
        outcomes.append([states, final, *torch.autograd.grad(total, sources)])
    torch.compiler.reset()
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
