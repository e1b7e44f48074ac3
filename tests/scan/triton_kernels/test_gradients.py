"""Gradients of the kernels: finite differences, and autograd through the dense loop in double precision."""

from dataclasses import replace

import pytest
import torch

from statetrack.scan import scan, straight_through
from statetrack.structures import ColumnOneHot, Diagonal, MixedOneHot, RoutedOneHot, RowOneHot

pytest.importorskip("triton", reason="triton is not installed")
from statetrack.scan.triton.dispatch import scan_on_gpu

FORMS = [Diagonal, RowOneHot, ColumnOneHot]


def on(device, a, value):
    """A structure with other entries, on a device."""
    moved = {name: t.to(device) for name, t in vars(a).items() if isinstance(t, torch.Tensor)}
    return replace(a, **moved | {"value": value.to(device)})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.complex128, marks=pytest.mark.slow)])
def test_gradients_are_derivatives(oracle, device, form, dtype):
    a, b, h0 = oracle.example(form, (1, 2, 1), 2, dtype)

    def run(value, inputs, initial):
        return scan_on_gpu(on(device, a, value), inputs, initial, None, chunk=1)

    sources = [x.to(device).requires_grad_() for x in (a.value, b, h0)]
    assert torch.autograd.gradcheck(run, sources, fast_mode=True, nondet_tol=0.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("packed", "with_inputs"), [(False, True), (False, False), (True, True)])
def test_gradients_equal_autograd_through_the_dense_loop(oracle, device, form, packed, with_inputs):
    """Random cotangents on states and final states, on each alone and on both."""
    offsets = [0, 0, 3, 4, 4, 6] if packed else None
    a, b, h0 = oracle.example(form, (1, 6, 1) if packed else (2, 3, 1), 3, torch.complex128)
    if packed:
        h0 = torch.randn(5, 1, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(9))
    a, b, h0 = oracle.leaf(a), b.requires_grad_(), h0.requires_grad_()
    inputs = b if with_inputs else None
    expected = oracle.loop(oracle.dense(a), inputs, h0, offsets)
    found = scan_on_gpu(
        on(device, a, a.value),
        None if inputs is None else inputs.to(device),
        h0.to(device),
        torch.tensor(offsets) if packed else None,
        chunk=2,
    )
    g = torch.Generator().manual_seed(5)
    cotangents = [torch.randn(e.shape, generator=g, dtype=e.dtype) for e in expected]
    sources = [a.value, h0, *([b] if with_inputs else [])]
    for outputs in ((0, 1), (0,), (1,)) if with_inputs and not packed else ((0, 1),):
        moved = [found[i] for i in outputs], [cotangents[i].to(device) for i in outputs]
        plain = [expected[i] for i in outputs], [cotangents[i] for i in outputs]
        grads = torch.autograd.grad(moved[0], sources, moved[1], retain_graph=True)
        wanted = torch.autograd.grad(plain[0], sources, plain[1], retain_graph=True, allow_unused=True, materialize_grads=True)
        for grad, want in zip(grads, wanted, strict=True):
            torch.testing.assert_close(grad, want, rtol=1e-11, atol=1e-11)


def choices(form, tau, seed=0):
    """Scores, logits and a function from them to hard choices and to dense selections that are differentiable by autograd."""
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, 4, 4, generator=g, dtype=torch.float64).requires_grad_()
    logits = torch.randn(1, 4, 2, 3, generator=g, dtype=torch.float64).requires_grad_()
    orientation, credit = form
    dim = -2 if orientation == "column" else -1

    def passed(x, along, masked):
        soft = (x / tau).softmax(along)
        hard = torch.zeros_like(x).scatter(along, x.argmax(along, keepdim=True), 1.0)
        return (hard + soft - soft.detach()) * (hard if masked else 1.0)

    def dense(x, y):
        masked = credit != "full"
        routing = passed(y, -1, masked)
        routing = routing.detach() if credit == "selection alone" else routing
        return torch.einsum("blhk,hkij->blhij", routing, passed(x, dim, masked))

    def routed(x, y, value):
        selection, routing = straight_through(x, dim, tau), straight_through(y, -1, tau)
        routing = None if credit == "selection alone" else routing
        return RoutedOneHot(x.argmax(dim), y.argmax(-1), value, orientation, selection, routing, credit == "full")

    return scores, logits, dense, routed, dim


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize(
    ("credit", "dtype"), [("full", torch.complex128), ("active", torch.complex128), ("selection alone", torch.float64)]
)
def test_straight_through_credit_equals_autograd_through_dense_matrices(oracle, device, orientation, credit, dtype):
    """Rows and packed documents; tokens in groups of the smallest size, so that entries have none, one and several."""
    scores, logits, dense, routed, dim = choices((orientation, credit), tau=0.7)
    g = torch.Generator().manual_seed(3)
    value, b, upstream = (torch.randn(1, 4, 2, 4, generator=g, dtype=dtype) for _ in range(3))
    offsets = [0, 1, 4]
    h0 = torch.randn(2, 2, 4, generator=g, dtype=dtype)
    sources = [scores, *([logits] if credit != "selection alone" else [])]
    a = routed(scores.to(device), logits.to(device), value.to(device))
    states, _ = scan_on_gpu(a, b.to(device), h0.to(device), torch.tensor(offsets), chunk=2)
    found = [states.cpu(), *torch.autograd.grad(states, sources, upstream.to(device))]
    truth = oracle.loop(dense(scores, logits) * value.unsqueeze(dim), b, h0, offsets)[0]
    expected = [truth, *torch.autograd.grad(truth, sources, upstream)]
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("size", [1, 2, pytest.param(64, marks=pytest.mark.slow)])
def test_groups_of_any_size_give_the_same_credit(device, orientation, size, monkeypatch):
    """Against one outer product per token, added up in a loop."""
    from statetrack.scan.triton import credit as module

    monkeypatch.setattr(module, "_GROUP", size)
    monkeypatch.setattr(module, "block_of", lambda n: 1)
    g = torch.Generator().manual_seed(0)
    dictionary, route = torch.randint(3, (1, 4, 3), generator=g), torch.randint(3, (1, 9, 1), generator=g)
    value, b = (torch.randn(1, 9, 1, 3, generator=g, dtype=torch.float64) for _ in range(2))
    selection = torch.zeros(1, 4, 3, 3, dtype=torch.float64, device=device, requires_grad=True)
    a = RoutedOneHot(*(x.to(device) for x in (dictionary, route, value)), orientation, selection)
    states, _ = scan_on_gpu(a, b.to(device), torch.zeros(1, 1, 3, dtype=torch.float64, device=device), None)
    states.retain_grad()
    upstream = torch.randn(states.shape, generator=g, dtype=torch.float64)
    (found,) = torch.autograd.grad(states, selection, upstream.to(device))
    x = torch.cat([torch.zeros(1, 3, dtype=torch.float64), states.detach().cpu()[0, :, 0]])
    expected, carry = torch.zeros(4, 3, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for t in reversed(range(9)):
        k, d, total = int(route[0, t, 0]), value[0, t, 0], upstream[0, t, 0] + carry
        p = torch.nn.functional.one_hot(dictionary[0, k], 3).double()
        if orientation == "column":
            expected[k] += torch.outer(total, d * x[t])
            carry = d * (p @ total)
        else:
            expected[k] += torch.outer(total * d, x[t])
            carry = p.mT @ (d * total)
    torch.testing.assert_close(found.cpu()[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("orientation", ["column", pytest.param("row", marks=pytest.mark.slow)])
def test_mixtures_get_their_credit_through_the_kernels(device, orientation):
    g = torch.Generator().manual_seed(2)
    scores = torch.randn(1, 2, 3, 3, generator=g, dtype=torch.float64).requires_grad_()
    mix = torch.rand(1, 3, 1, 2, generator=g, dtype=torch.float64).requires_grad_()
    value, b, upstream = (torch.randn(1, 3, 1, 3, generator=g, dtype=torch.float64) for _ in range(3))
    outcomes = []
    for place, backend in ((device, "triton"), ("cpu", "reference")):
        a = MixedOneHot(scores.to(place), mix.to(place), value.to(place), orientation)
        states = scan(a, b.to(place), backend=backend).states
        outcomes.append([states.cpu(), *torch.autograd.grad(states, [scores, mix], upstream.to(place))])
    for x, y in zip(*outcomes, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", [Diagonal, RowOneHot, ColumnOneHot, "routed"])
def test_states_that_are_computed_anew_give_the_same_gradients(oracle, device, form):
    """Bit for bit, and without states among what is kept."""
    a, b, h0 = oracle.example(ColumnOneHot if form == "routed" else form, (1, 5, 1), 3, torch.complex128)
    if form == "routed":
        selection = torch.zeros(1, 5, 3, 3, dtype=torch.float64, device=device, requires_grad=True)
        a = RoutedOneHot(a.index[0, :, 0].unsqueeze(0), torch.arange(5).view(1, 5, 1), a.value, selection=selection)
    outcomes, kept = [], []
    for recompute in (False, True):
        leaves = [x.to(device).requires_grad_() for x in (a.values, b, h0)]
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, saved=saved: saved.append(x.data_ptr()) or x, lambda x: x):
            states, final = scan_on_gpu(on(device, a, leaves[0]), leaves[1], leaves[2], None, chunk=2, recompute=recompute)
        kept.append(states.data_ptr() in saved)
        total = states.abs().square().sum() + final.abs().square().sum()
        sources = [*leaves, *([selection] if form == "routed" else [])]
        outcomes.append([states, *torch.autograd.grad(total, sources)])
    assert kept == [True, False]
    for x, y in zip(*outcomes, strict=True):
        assert torch.equal(x, y)
    truth = oracle.loop(oracle.dense(a.expand() if form == "routed" else a), b, h0)[0]
    torch.testing.assert_close(outcomes[0][0].cpu(), truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_half_precision_come_in_half_precision(oracle, device, form):
    a, b, h0 = oracle.example(form, (1, 5, 1), 4, torch.float32)
    half = [a.value.bfloat16().to(device).requires_grad_(), b.bfloat16().to(device).requires_grad_()]
    states = scan(on(device, a, half[0]), half[1], h0.to(device), backend="triton").states
    found = torch.autograd.grad(states.square().sum(), half)
    assert [g.dtype for g in found] == [torch.bfloat16] * 2
    wide = [x.detach().cpu().double().requires_grad_() for x in half]
    truth = oracle.loop(oracle.dense(replace(a, value=wide[0])), wide[1], h0.double())[0]
    for grad, want in zip(found, torch.autograd.grad(truth.square().sum(), wide), strict=True):
        # A unit in the last place: the interpreter cuts digits off where a GPU rounds.
        torch.testing.assert_close(grad.cpu().double(), want, rtol=2**-7, atol=1e-3)


GATES = {
    "zero": 0.0,
    "one": 1.0,
    "minus one": -1.0,
    "tiny": 1e-12,
    "denormal": 1e-310,
    "unit circle": 0.6 + 0.8j,
    "one below one": 1 - 2**-53,
}


@pytest.mark.parametrize("form", FORMS)
def test_extreme_gates_stay_finite_and_right(oracle, device, form):
    """One head for each gate, which changes between extremes from token to token."""
    a, b, h0 = oracle.example(form, (1, 4, len(GATES)), 2, torch.complex128)
    value = torch.tensor(list(GATES.values()), dtype=torch.complex128).view(1, 1, -1, 1).expand_as(a.value).clone()
    value[:, 1] = 1.0
    value[:, 3] = 0.0
    a = oracle.leaf(replace(a, value=value))
    b, h0 = b.requires_grad_(), h0.requires_grad_()
    kernels = scan_on_gpu(on(device, a, a.value), b.to(device), h0.to(device), None, chunk=3)
    outcomes = []
    for states, final in (kernels, oracle.loop(oracle.dense(a), b, h0)):
        grads = torch.autograd.grad(states.abs().square().sum() + final.real.sum(), [a.values, b, h0])
        outcomes.append([states.cpu(), final.cpu(), *grads])
    for found, expected in zip(*outcomes, strict=True):
        assert torch.isfinite(torch.view_as_real(found)).all()
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
