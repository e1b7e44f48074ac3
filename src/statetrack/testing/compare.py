"""Comparisons that name the law they check and the numbers they found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


def assert_close(law: str, actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    """``|actual - expected| <= tolerance * (1 + max |expected|)``, same shape and dtype; not a number equals nothing."""
    assert actual.shape == expected.shape, f"{law}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    assert actual.dtype == expected.dtype, f"{law}: dtype {actual.dtype}, expected {expected.dtype}"
    if not actual.numel():
        return
    if not (actual.is_floating_point() or actual.is_complex()):
        return assert_equal(law, actual, expected)
    error, scale = (actual - expected).abs().max().item(), 1 + expected.abs().max().item()
    assert error <= tolerance * scale, f"{law}: differs by {error:.3g}, allowed {tolerance * scale:.3g}"


def assert_equal(law: str, actual: Tensor, expected: Tensor) -> None:
    """Equal to the last bit."""
    assert actual.shape == expected.shape, f"{law}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    different = int((actual != expected).sum())
    assert not different, f"{law}: {different} of {actual.numel()} entries are not bit-identical"


def assert_finite(law: str, tensors: Iterable[Tensor]) -> None:
    """No NaN and no infinity."""
    for tensor in tensors:
        bad = int((~torch.isfinite(tensor)).sum())
        assert not bad, f"{law}: {bad} of {tensor.numel()} entries are not finite"


def assert_states_close(law: str, actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Field by field; a cache that has unused room at its end equals one that has none."""
    assert type(actual) is type(expected), f"{law}: state is a {type(actual).__name__}, expected {type(expected).__name__}"
    for name, a, b in zip(actual._fields, actual, expected, strict=True):
        assert a.ndim == b.ndim, f"{law}: state.{name} has shape {tuple(a.shape)}, expected {tuple(b.shape)}"
        room = [max(sizes) for sizes in zip(a.shape[1:], b.shape[1:], strict=True)]
        a, b = (
            pad(t, [p for have, want in zip(t.shape[:0:-1], room[::-1], strict=True) for p in (0, want - have)]) for t in (a, b)
        )
        assert_close(f"{law}: state.{name}", a, b, tolerance)


def pairing(outputs: Iterable[Tensor], cotangents: Iterable[Tensor]) -> Tensor:
    """``Re <cotangent, output>`` summed over the outputs that carry numbers; a cotangent is cropped to its output."""
    total = torch.zeros((), dtype=torch.float64)
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output.is_floating_point() or output.is_complex():
            cropped = cotangent[tuple(slice(size) for size in output.shape)].to(output.dtype)
            total = total + (cropped.conj() * output).real.sum()
    return total
