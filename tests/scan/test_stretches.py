"""One row of one-hot transitions cut along its tokens for several threads."""

from itertools import pairwise

import pytest
import torch

from statetrack.scan import scan, straight_through
from statetrack.scan.cpu import stretches
from statetrack.structures import ColumnOneHot, RoutedOneHot, RowOneHot


@pytest.fixture(params=[2, 3])
def threads(request, monkeypatch):
    """Cuts whatever the size, into one stretch more than there are threads."""
    monkeypatch.setattr(stretches, "LEAST", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    seen = []
    run = stretches.Row._run
    monkeypatch.setattr(stretches.Row, "_run", lambda self, *a: (seen.append(self.n_threads), run(self, *a)))
    yield seen
    torch.set_num_threads(before)


@pytest.mark.parametrize("length", [4, 5, 61])
@pytest.mark.parametrize("structure", [ColumnOneHot, RowOneHot])
@pytest.mark.parametrize(("dtype", "given"), [(torch.float64, True), (torch.complex128, True), (torch.complex128, False)])
def test_states_and_gradients_equal_the_dense_loop(oracle, threads, structure, dtype, given, length):
    transitions, b, h0 = oracle.example(structure, (1, length, 1), 5, dtype)
    leaf, b, h0 = oracle.leaf(transitions), b.requires_grad_(), h0.requires_grad_()
    b = b if given else None
    cotangents = [torch.randn(1, n, 1, 5, dtype=dtype, generator=torch.Generator().manual_seed(3)) for n in (length, 1)]

    def outcome(states, final):
        sources = [leaf.values, h0, *([b] if given else [])]
        grads = torch.autograd.grad([states, final], sources, [cotangents[0], cotangents[1][:, 0]])
        return [states, final, *grads]

    found = outcome(*scan(leaf, b, h0, backend="cpu"))
    assert threads == [torch.get_num_threads()] * 2, "both passes were cut"
    expected = outcome(*oracle.loop(oracle.dense(leaf), b, h0))
    for x, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(x, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("heads", [1, 2])
def test_a_dictionary_is_credited_as_on_one_thread(threads, orientation, heads):
    """Three threads cut the row of two heads as well; two have a head each."""
    g = torch.Generator().manual_seed(0)
    dim = -2 if orientation == "column" else -1

    def outcome(n_threads):
        torch.set_num_threads(n_threads)
        g.manual_seed(0)
        scores = torch.randn(heads, 3, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
        logits = torch.randn(1, 40, heads, 3, generator=g, dtype=torch.float64, requires_grad=True)
        value = torch.randn(1, 40, heads, 4, generator=g, dtype=torch.complex128).requires_grad_()
        choices = straight_through(scores, dim), straight_through(logits, -1)
        routed = RoutedOneHot(scores.argmax(dim), logits.argmax(-1), value, orientation, *choices)
        states, final = scan(routed, None, value.detach()[:, 0], backend="cpu")
        total = states.abs().square().sum() + final.abs().square().sum()
        return [states, final, *torch.autograd.grad(total, [value, scores, logits])]

    several = torch.get_num_threads()
    cut = outcome(several)
    assert bool(threads) == (heads < several)
    for x, exact in zip(cut, outcome(1), strict=True):
        torch.testing.assert_close(x, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("structure", [ColumnOneHot, RowOneHot])
def test_products_of_permutations_are_exact(threads, structure):
    g = torch.Generator().manual_seed(0)
    maps = torch.rand(1, 999, 1, 7, generator=g).argsort(-1)
    states = scan(structure(maps, torch.ones(maps.shape)), None, torch.arange(7.0).view(1, 1, 7), backend="cpu").states
    assert threads
    now = torch.arange(7.0)
    for state, m in zip(states[0, :, 0], maps[0, :, 0], strict=True):
        now = torch.zeros(7).scatter(0, m, now) if structure is ColumnOneHot else now[m]
        assert torch.equal(state, now)


def test_two_runs_are_bit_equal_and_stretches_cover_the_row(oracle, threads):
    transitions, b, h0 = oracle.example(ColumnOneHot, (1, 50, 1), 5, torch.float32)
    first, second = (scan(transitions, b, h0, backend="cpu").states for _ in range(2))
    assert torch.equal(first, second)
    row = stretches.Row(True, *[torch.zeros(0).numpy()] * 2, torch.zeros(50 * 5).numpy(), None, 1, 5, torch.get_num_threads())
    cuts = row._cuts(1.5)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, 50, torch.get_num_threads() + 2)
    assert all(a <= b for a, b in pairwise(cuts))


def test_documents_rows_and_small_ones_are_not_cut(monkeypatch):
    torch.set_num_threads(2)
    try:
        assert stretches.n_stretches(1, 1, 4 * stretches.LEAST) == 2
        assert stretches.n_stretches(1, 1, 2 * stretches.LEAST - 1) == 1
        assert stretches.n_stretches(1, 2, 4 * stretches.LEAST) == 1
        assert stretches.n_stretches(2, 1, 4 * stretches.LEAST) == 1
    finally:
        torch.set_num_threads(1)
