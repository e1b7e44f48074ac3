"""Plans of maps: scattering by gathers and restarting sums."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
tl = pytest.importorskip("triton.language")
maps = pytest.importorskip("statetrack.scan.triton.maps")
block_of = pytest.importorskip("statetrack.scan.triton.launch").block_of


@triton.jit
def scatter_once(x, source, last, whole, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, col = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    mask = col < WIDTH
    at = row * WIDTH + col
    value = tl.load(x + at, mask=mask, other=0.0)
    s = tl.load(source + at, mask=mask, other=0).to(tl.int32)
    la = tl.load(last + at, mask=mask, other=-1).to(tl.int32)
    re, _ = maps.scatter(value, value, s, la, tl.load(whole + row), False)
    tl.store(out + at, re, mask=mask)


@triton.jit
def combine_two(a_new, a, b_new, b, out_new, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    new, value = maps.restarting_real_sum(tl.load(a_new + i), tl.load(a + i), tl.load(b_new + i), tl.load(b + i))
    tl.store(out_new + i, new)
    tl.store(out + i, value)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_planned_maps_scatter_like_additions_one_by_one(device, n):
    """Random maps, one that sends all states to the last, the identity and a random permutation."""
    g = torch.Generator().manual_seed(n)
    index = torch.stack([
        torch.randint(n, (n,), generator=g),
        torch.full((n,), n - 1),
        torch.arange(n),
        torch.randperm(n, generator=g),
    ])  # fmt: skip
    x = torch.randn(4, n, generator=g, dtype=torch.float64)
    source, last = (torch.full((4, n), -1, dtype=torch.int16, device=device) for _ in range(2))
    whole, out = torch.empty(4, dtype=torch.int32, device=device), torch.empty(4, n, dtype=torch.float64, device=device)
    sizes = {"WIDTH": n, "BLOCK": block_of(n)}
    maps.plan[(4,)](index.to(device, torch.int16), source, last, whole, **sizes)
    scatter_once[(4,)](x.to(device), source, last, whole, out, **sizes)
    expected = torch.zeros(4, n, dtype=torch.float64)
    for row in range(4):
        for q in range(n):
            expected[row, index[row, q]] += x[row, q]
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-14, atol=1e-14)
    assert torch.equal(out.cpu()[2:], expected[2:])
    assert whole.tolist() == [int(index[row].unique().numel() == n) for row in range(4)]


def test_restarting_sums_are_associative(device):
    """On integers, where sums are exact: every triple of stretches with and without a beginning."""
    g = torch.Generator().manual_seed(0)
    flags = torch.tensor([[i >> k & 1 for i in range(8)] for k in range(3)], dtype=torch.int32)
    values = torch.randint(-9, 9, (3, 8), generator=g).double()
    parts = [(f.to(device), v.to(device)) for f, v in zip(flags, values, strict=True)]

    def join(a, b):
        new, value = torch.empty_like(a[0]), torch.empty_like(a[1])
        combine_two[(1,)](*a, *b, new, value, BLOCK=8)
        return new, value

    left, right = join(join(*parts[:2]), parts[2]), join(parts[0], join(*parts[1:]))
    assert torch.equal(left[0], right[0])
    assert torch.equal(left[1], right[1])
    expected = [
        v[2] if f[2] else v[2] + (v[1] if f[1] else v[0] + v[1])
        for f, v in zip(flags.mT.tolist(), values.mT.tolist(), strict=True)
    ]
    assert left[1].tolist() == expected
