"""Results that are large enough for huge pages."""

from __future__ import annotations

import gc

import pytest
import torch

from statetrack.scan import scan
from statetrack.scan.cpu import memory
from statetrack.scan.cpu.memory import empty
from statetrack.structures import ColumnOneHot, Diagonal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("length", [0, 5, 1_048_577])
def test_empty_is_an_ordinary_tensor(dtype: torch.dtype, length: int) -> None:
    x = empty((length, 2), dtype)
    assert (x.shape, x.dtype) == ((length, 2), dtype)
    assert x.is_contiguous()
    assert x.data_ptr() % 64 == 0
    expected = torch.arange(2 * length).view(length, 2)
    x.copy_(expected)
    gc.collect()
    assert torch.equal(x.real.long(), expected)


def test_large_scans_are_right() -> None:
    """Counting, and a permutation that comes round every third token: both exact in float32."""
    length = 400_003
    ones = torch.ones(1, length, 1, 3, requires_grad=True)
    counted = scan(Diagonal(ones), torch.ones(1, length, 1, 3), backend="cpu").states
    assert torch.equal(counted[0, :, 0, 1], torch.arange(1.0, length + 1))
    turn = torch.tensor([1, 2, 0], dtype=torch.int16).expand(1, length, 1, 3)
    start = torch.tensor([[[5.0, 6.0, 7.0]]])
    turned = scan(ColumnOneHot(turn, ones), None, start, backend="cpu").states
    expected = torch.stack([start[0, 0].roll(shift) for shift in range(3)])
    assert torch.equal(turned[0, :, 0], expected[torch.arange(1, length + 1) % 3])
    (g_value,) = torch.autograd.grad(turned[0, -1, 0, 0], ones)
    assert torch.equal(g_value.sum(-1).flatten(), turned.detach()[0, -1, 0, 0].expand(length))


@pytest.fixture
def buffers(monkeypatch: pytest.MonkeyPatch) -> memory._Buffers:
    """No buffer known, and at most 20 MiB of them."""
    monkeypatch.setattr(memory, "_buffers", memory._Buffers())
    monkeypatch.setattr(memory, "_HELD", 20 << 20)
    return memory._buffers


def mebibytes(n: float) -> torch.Tensor:
    return empty((int(n * (1 << 18)),), torch.float32)


def test_a_buffer_is_used_again_once_nobody_has_it(buffers: memory._Buffers) -> None:
    first = mebibytes(6)
    place, view = first.data_ptr(), first[100:200].fill_(3.0)
    del first
    second = mebibytes(6)
    assert second.data_ptr() != place and (view == 3).all()  # The view still has the first.
    del view
    assert mebibytes(5).data_ptr() == place
    assert mebibytes(4).data_ptr() != place  # It would leave more than a fifth unused.


def test_saved_for_backward_counts_as_use(buffers: memory._Buffers) -> None:
    d = torch.full((1, 1 << 16, 1, 16), 0.5, requires_grad=True)
    states = scan(Diagonal(d), torch.ones_like(d), backend="cpu").states
    loss = states.square().sum()
    del states
    others = [mebibytes(4).fill_(float("nan")) for _ in range(4)]
    (g,) = torch.autograd.grad(loss, d)
    assert g.isfinite().all() and len(others) == 4


def test_little_is_held_back(buffers: memory._Buffers) -> None:
    held = [mebibytes(6) for _ in range(5)]
    assert sum(map(len, buffers.known)) <= 20 << 20
    del held
    mebibytes(15)
    assert [len(raw) >> 20 for raw in buffers.known] == [15]
    mebibytes(30)
    assert sum(map(len, buffers.known)) <= 20 << 20
