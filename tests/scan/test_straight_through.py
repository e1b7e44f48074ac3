"""Straight-through credit of routed and mixed one-hot scans: dense autograd and the closed formulas."""

import pytest
import torch

from statetrack.scan import scan, straight_through
from statetrack.structures import MixedOneHot, RoutedOneHot

N, K, L, B = 4, 3, 6, 2


def problem(seed=0):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape, dtype=torch.float64):
        return torch.randn(shape, generator=g, dtype=dtype).requires_grad_()

    c = torch.complex128
    scores, logits = normal(1, K, N, N), normal(B, L, 1, K)
    value, b, h0 = normal(B, L, 1, N, dtype=c), normal(B, L, 1, N, dtype=c), normal(B, 1, N, dtype=c)
    return scores, logits, value, b, h0, torch.randn(B, L, 1, N, generator=g, dtype=c)


def axis(orientation):
    return -2 if orientation == "column" else -1


def routed(scores, logits, value, orientation, credit, tau):
    dim = axis(orientation)
    return RoutedOneHot(
        scores.argmax(dim),
        logits.argmax(-1),
        value,
        orientation,
        straight_through(scores, dim, tau),
        straight_through(logits, -1, tau),
        credit == "full",
    )


def one_hot(scores, dim):
    return torch.zeros_like(scores).scatter(dim, scores.argmax(dim, keepdim=True), 1.0)


@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_straight_through_is_hard_forward_and_soft_backward(tau):
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weight = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    hard = straight_through(scores, -1, tau)
    torch.testing.assert_close(hard.detach(), one_hot(scores, -1).detach(), rtol=0, atol=1e-15)
    found = torch.autograd.grad((hard * weight).sum(), scores)[0]
    p = (scores / tau).exp() / (scores / tau).exp().sum(-1, keepdim=True)
    expected = p * (weight - (p * weight).sum(-1, keepdim=True)) / tau
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("credit", ["full", "active"])
@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_routed_credit_equals_autograd_through_dense_matrices(oracle, orientation, credit, backend, tau):
    scores, logits, value, b, h0, upstream = problem()
    sources = [scores, logits, value, b, h0]
    states = scan(routed(scores, logits, value, orientation, credit, tau), b, h0, backend=backend).states
    found = torch.autograd.grad(states, sources, upstream)
    dim = axis(orientation)

    def passed(choice, dim):
        soft = (choice / tau).softmax(dim)
        hard = one_hot(choice, dim)
        ste = hard + soft - soft.detach()
        return ste * hard if credit == "active" else ste

    p = torch.einsum("blhk,hkij->blhij", passed(logits, -1), passed(scores, dim))
    expected_states = oracle.loop(p * value.unsqueeze(dim), b, h0)[0]
    torch.testing.assert_close(states, expected_states, rtol=1e-12, atol=1e-12)
    for grad, expected in zip(found, torch.autograd.grad(expected_states, sources, upstream), strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("credit", ["full", "active"])
@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_routed_credit_equals_the_closed_formulas(orientation, credit, backend, tau):
    """One sequence at a time, with every sum written out."""
    scores, logits, value, b, h0, upstream = problem(1)
    column = orientation == "column"
    states = scan(routed(scores, logits, value, orientation, credit, tau), b, h0, backend=backend).states
    d_scores, d_logits = torch.autograd.grad(states, [scores, logits], upstream)
    with torch.no_grad():
        m, d, x = scores[0], value[:, :, 0], torch.cat([h0, states[:, :, 0]], 1)
        maps = m.argmax(-2) if column else m.argmax(-1)
        route = logits[:, :, 0].argmax(-1)
        totals = torch.zeros(K, N, N, dtype=torch.float64)
        want_logits = torch.zeros(B, L, K, dtype=torch.float64)
        for row in range(B):
            c = torch.zeros(N, dtype=torch.complex128)
            for t in reversed(range(L)):
                g, before = upstream[row, t, 0] + c, x[row, t]
                k, pi = int(route[row, t]), maps[route[row, t]]
                if column:
                    credit_of = torch.outer(g.conj(), d[row, t] * before).real
                    c = d[row, t].conj() * g[pi]
                else:
                    credit_of = torch.outer(g.conj() * d[row, t], before).real
                    c = torch.zeros_like(c).scatter_add(0, pi, d[row, t].conj() * g)
                totals[k] += credit_of
                states_axis = torch.arange(N)
                r = torch.stack([(credit_of[h, states_axis] if column else credit_of[states_axis, h]).sum() for h in maps])
                w = (logits[row, t, 0] / tau).softmax(-1)
                if credit == "full":
                    want_logits[row, t] = w * (r - (w * r).sum()) / tau
                else:
                    want_logits[row, t] = r[k] * w[k] * (torch.eye(K, dtype=torch.float64)[k] - w) / tau
        p = (m / tau).softmax(-2 if column else -1)
        want_scores = torch.zeros_like(m)
        for k in range(K):
            for q in range(N):
                line = (k, slice(None), q) if column else (k, q, slice(None))
                chosen = int(maps[k, q])
                if credit == "full":
                    want_scores[line] = p[line] * (totals[line] - (p[line] * totals[line]).sum()) / tau
                else:
                    own = totals[line][chosen]
                    want_scores[line] = own * p[line][chosen] * (torch.eye(N, dtype=torch.float64)[chosen] - p[line]) / tau
    torch.testing.assert_close(d_scores[0], want_scores, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(d_logits[:, :, 0], want_logits, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
@pytest.mark.parametrize("chunk", [1 << 18, 3 * N * N])
def test_mixture_credit_equals_the_closed_formulas(orientation, backend, chunk, monkeypatch):
    """``dM_k = sum_t s_tk J(p_t, G_t)`` and ``ds_tk = <M_k, J(p_t, G_t)>``, for chunks longer and shorter than the sequence."""
    monkeypatch.setattr("statetrack.scan.mixture._CHUNK_ENTRIES", chunk)
    scores, logits, value, b, h0, upstream = problem(2)
    mix = logits.softmax(-1).detach().requires_grad_()
    column = orientation == "column"
    states = scan(MixedOneHot(scores, mix, value, orientation), b, h0, backend=backend).states
    found = torch.autograd.grad(states, [scores, mix], upstream)
    dim = axis(orientation)
    with torch.no_grad():
        x = torch.cat([h0, states[:, :, 0]], 1)
        want_scores, want_mix = torch.zeros_like(scores), torch.zeros_like(mix)
        for row in range(B):
            c = torch.zeros(N, dtype=torch.complex128)
            for t in reversed(range(L)):
                mixture = sum(mix[row, t, 0, k] * scores[0, k] for k in range(K))
                pi, p = mixture.argmax(dim), mixture.softmax(dim)
                g, before, d = upstream[row, t, 0] + c, x[row, t], value[row, t, 0]
                if column:
                    big_g = torch.outer(g.conj(), d * before).real
                    c = d.conj() * g[pi]
                else:
                    big_g = torch.outer(g.conj() * d, before).real
                    c = torch.zeros_like(c).scatter_add(0, pi, d.conj() * g)
                jacobian = p * (big_g - (p * big_g).sum(dim, keepdim=True))
                for k in range(K):
                    want_scores[0, k] += mix[row, t, 0, k] * jacobian
                    want_mix[row, t, 0, k] = (scores[0, k] * jacobian).sum()
    for grad, want in zip(found, (want_scores, want_mix), strict=True):
        torch.testing.assert_close(grad, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("form", ["full", "active", "mixed"])
@pytest.mark.parametrize("backend", ["tree", "cpu"])
def test_credit_in_packed_documents_equals_a_loop(orientation, form, backend):
    g = torch.Generator().manual_seed(3)
    offsets = [0, 0, 4, 5, 5, 9]
    scores = torch.randn(2, K, N, N, generator=g, dtype=torch.float64).requires_grad_()
    logits = torch.randn(1, 9, 2, K, generator=g, dtype=torch.float64).requires_grad_()
    value, b = (torch.randn(1, 9, 2, N, generator=g, dtype=torch.complex128) for _ in range(2))
    h0 = torch.randn(5, 2, N, generator=g, dtype=torch.complex128)
    upstream = torch.randn(1, 9, 2, N, generator=g, dtype=torch.complex128)

    def transitions(part):
        if form == "mixed":
            return MixedOneHot(scores, logits[:, part].softmax(-1), value[:, part], orientation)
        return routed(scores, logits[:, part], value[:, part], orientation, form, 1.0)

    everything = slice(0, 9)
    packed = scan(transitions(everything), b, h0, cu_seqlens=torch.tensor(offsets), backend=backend)
    found = torch.autograd.grad(packed.states, [scores, logits], upstream)
    total = 0
    for s in range(5):
        part = slice(offsets[s], offsets[s + 1])
        states = scan(transitions(part), b[:, part], h0[s : s + 1], backend="reference").states
        torch.testing.assert_close(packed.states[:, part], states, rtol=1e-11, atol=1e-11)
        total = total + (upstream[:, part].conj() * states).real.sum()
    for grad, want in zip(found, torch.autograd.grad(total, [scores, logits]), strict=True):
        torch.testing.assert_close(grad, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", ["reference", "tree", "cpu"])
@pytest.mark.parametrize("form", ["full", "active", "mixed"])
def test_real_diagonals_get_the_same_credit(oracle, backend, form):
    """Real entries against complex ones with zero imaginary part."""
    scores, logits, value, b, h0, upstream = problem(4)
    value, b, h0, upstream = (t.detach().real.contiguous() for t in (value, b, h0, upstream))
    outcomes = []
    for number in (torch.float64, torch.complex128):
        d = value.to(number)
        a = MixedOneHot(scores, logits.softmax(-1), d) if form == "mixed" else routed(scores, logits, d, "column", form, 1.0)
        states = scan(a, b.to(number), h0.to(number), backend=backend).states
        outcomes.append([states.real, *torch.autograd.grad(states, [scores, logits], upstream.to(number))])
    for real, complex_ in zip(*outcomes, strict=True):
        torch.testing.assert_close(real, complex_, rtol=1e-11, atol=1e-11)
