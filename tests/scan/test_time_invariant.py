"""Time-invariant recurrences in chunks against the loop over tokens."""

import pytest
import torch

from statetrack.scan.time_invariant import Response, time_invariant_scan
from statetrack.structures import Dense

CHANNELS, WIDTH, REALS = 3, 2, 4


def system(seed=0):
    """``A (C, R, R)``, ``f (C, R)`` and ``g (C, R)`` of a stable system whose states are real numbers, two by two."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(CHANNELS, REALS, REALS, generator=generator, dtype=torch.float64)
    a = 0.9 * a / torch.linalg.matrix_norm(a, 2)[:, None, None]
    f, g = torch.randn(2, CHANNELS, REALS, generator=generator, dtype=torch.float64)
    return a, f, g


def response(a, f, g, size):
    """The state has the layout ``(C, R, V)`` with V = 2 read as real and imaginary part, so that A acts on ``(1, C * R)``."""
    powers = torch.stack([torch.linalg.matrix_power(a, k) for k in range(size + 1)])
    after = torch.einsum("tcij,cj->tci", powers[:-1], f)
    dense = torch.stack([torch.block_diag(*each) for each in powers])
    return Response(
        powers=Dense(dense.unsqueeze(1).to(torch.complex128)),
        kernel=torch.einsum("ci,tci->ct", g, after),
        write=after.permute(1, 2, 0),
        read=torch.einsum("ci,tcij->ctj", g, powers[1:]),
    )


def loop(a, f, g, u, h):
    """``u (L, C, V)``, ``h (C, R, V)``."""
    outputs = []
    for each in u:
        h = torch.einsum("cij,cjv->civ", a, h) + f.unsqueeze(-1) * each.unsqueeze(1)
        outputs.append((g.unsqueeze(-1) * h).sum(1))
    return torch.stack(outputs) if outputs else u, h


def as_complex(h):
    return torch.view_as_complex(h.reshape(*h.shape[:-3], 1, CHANNELS * REALS, WIDTH).contiguous())


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 64])
@pytest.mark.parametrize("offsets", [None, [0, 5, 5, 6, 13], [0, 0, 13, 13]])
def test_chunks_equal_the_loop(chunk_size, offsets):
    a, f, g = system()
    rows = 2 if offsets is None else len(offsets) - 1
    u = torch.randn(2 if offsets is None else 1, 13, CHANNELS, WIDTH, dtype=torch.float64)
    start = torch.randn(rows, CHANNELS, REALS, WIDTH, dtype=torch.float64)
    packed = None if offsets is None else torch.tensor(offsets)
    y, final = time_invariant_scan(
        lambda size: response(a, f, g, size), u, as_complex(start), cu_seqlens=packed, chunk_size=chunk_size
    )
    for s in range(rows):
        part = u[s] if offsets is None else u[0, offsets[s] : offsets[s + 1]]
        expected, last = loop(a, f, g, part, start[s])
        found = y[s] if offsets is None else y[0, offsets[s] : offsets[s + 1]]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(final[s], as_complex(last), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 0)])
def test_nothing_read_leaves_the_state(shape):
    a, f, g = system()
    start = as_complex(torch.randn(shape[0], CHANNELS, REALS, WIDTH, dtype=torch.float64))
    u = torch.zeros(*shape, CHANNELS, WIDTH, dtype=torch.float64)
    y, final = time_invariant_scan(lambda size: response(a, f, g, size), u, start)
    assert y.shape == u.shape
    assert torch.equal(final, start)


def test_gradients():
    a, f, g = (t.requires_grad_() for t in system())
    u = torch.randn(1, 5, CHANNELS, WIDTH, dtype=torch.float64, requires_grad=True)
    start = torch.randn(2, CHANNELS, REALS, WIDTH, dtype=torch.float64, requires_grad=True)

    def run(a, f, g, u, start):
        offsets = torch.tensor([0, 2, 5])
        return time_invariant_scan(lambda size: response(a, f, g, size), u, as_complex(start), cu_seqlens=offsets, chunk_size=2)

    assert torch.autograd.gradcheck(run, (a, f, g, u, start), fast_mode=True)
