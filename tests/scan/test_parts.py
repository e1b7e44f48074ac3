"""Complex numbers from parts, and diagonals from logits, against the formulas written with torch in double precision."""

import math

import pytest
import torch

from statetrack.scan import parts


def expected_diagonal(decay, rate, phase, rising, turns):
    modulus = torch.ones_like(phase)
    if decay is not None:
        modulus = ((1 + (-decay if rising else decay).exp()) ** (-1 if rate is None else -rate)).to(phase.dtype)
    angle = 2 * math.pi / (1 + (-phase).exp()) if turns else phase
    return torch.complex(modulus * angle.cos(), modulus * angle.sin())


def problem(dtype, with_decay, with_rate, rows=(3, 7), n=5):
    g = torch.Generator().manual_seed(0)
    decay, phase = (torch.randn(*rows, n, dtype=dtype, generator=g).requires_grad_() for _ in range(2))
    rate = torch.rand(n, dtype=dtype, generator=g).requires_grad_()
    return decay if with_decay else None, rate if with_decay and with_rate else None, phase


KINDS = [(d, r, u, t) for d in (True, False) for r in (True, False) for u in (True, False) for t in (True, False) if d or not r]


@pytest.mark.parametrize(("with_decay", "with_rate", "rising", "turns"), KINDS)
@pytest.mark.parametrize("kernel", [True, False])
def test_diagonal_and_its_gradients(with_decay, with_rate, rising, turns, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(parts, "NUMBA_MISSING", True)
    args = problem(torch.float64, with_decay, with_rate)
    found = parts.polar_diagonal(*args, rising=rising, turns=turns)
    expected = expected_diagonal(*args, rising, turns)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    cotangent = torch.randn_like(expected)
    given = [x for x in args if x is not None]
    for a, b in zip(torch.autograd.grad(found, given, cotangent), torch.autograd.grad(expected, given, cotangent), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 128])
def test_diagonal_over_several_blocks_and_threads(n):
    def run():
        args = problem(torch.float32, True, True, rows=(40_000 // n,), n=n)
        found = parts.polar_diagonal(*args, rising=False, turns=True)
        return [found.detach(), *torch.autograd.grad(found.real.sum() + found.imag.sum(), args)]

    one = run()
    wide = [x.detach().double() for x in problem(torch.float32, True, True, rows=(40_000 // n,), n=n)]
    exact = expected_diagonal(*wide, False, True)
    assert (one[0] - exact).abs().max() < 1e-6
    try:
        torch.set_num_threads(2)
        two = run()
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_extreme_logits_stay_finite_and_keep_their_gradients():
    decay = torch.tensor([[-200.0, -30.0, 0.0, 30.0, 200.0]], requires_grad=True)
    phase = decay.detach().clone().requires_grad_()
    found = parts.polar_diagonal(decay, None, phase, rising=True, turns=True)
    assert found.abs()[0].tolist() == pytest.approx([0.0, 1 / (1 + math.exp(30)), 0.5, 1.0, 1.0], rel=1e-5, abs=1e-30)
    found.real.sum().backward()
    assert decay.grad.isfinite().all() and phase.grad.isfinite().all()
    assert decay.grad[0, 2] == pytest.approx(-0.25)  # D(0) = sigmoid(0) exp(i pi) = -1/2, so dRe/dm = -sigmoid'(0)


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 8), (5, 2), (0, 4), (3, 0)])
def test_parts_and_back(kernel, shape, monkeypatch):
    if not kernel:
        monkeypatch.setattr(parts, "NUMBA_MISSING", True)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    z = parts.join_parts(x)
    re, im = x.detach().chunk(2, dim=-1)
    assert torch.equal(z.detach(), torch.complex(re, im))
    assert torch.equal(parts.split_parts(z), x)
    weight = torch.randn_like(z)
    g = torch.autograd.grad(z, x, weight)[0]
    assert torch.equal(g, torch.cat([weight.real, weight.imag], dim=-1))
    assert torch.autograd.gradcheck(parts.split_parts, [z.detach().requires_grad_()]) if x.numel() else True


def test_layouts_and_compilation():
    x = torch.randn(4, 6, 3).transpose(1, 2)  # not contiguous
    assert torch.equal(parts.join_parts(x), torch.complex(*(c.contiguous() for c in x.chunk(2, dim=-1))))
    z = torch.randn(4, 3, dtype=torch.complex64)
    assert torch.equal(parts.split_parts(z.conj()), torch.cat([z.real, -z.imag], dim=-1))

    def run(a, b, x):
        return parts.split_parts(parts.polar_diagonal(a, None, b, rising=True, turns=True) * parts.join_parts(x))

    given = [torch.randn(2, 3).requires_grad_() for _ in range(2)] + [torch.randn(2, 6).requires_grad_()]
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*given), run(*given))


@pytest.mark.parametrize("name", ["join_parts", "split_parts", "polar"])
def test_registration(name):
    from statetrack.scan.cpu import parts as kernels

    a, b, x = torch.randn(3, 4).requires_grad_(), torch.randn(3, 4).requires_grad_(), torch.randn(4).requires_grad_()
    args = {"join_parts": (a,), "split_parts": (torch.complex(a, b).detach().requires_grad_(),), "polar": (a, x, b, True, True)}
    torch.library.opcheck(getattr(kernels, name), args[name])
