"""``check_structure``: the laws of a transition structure against dense float64 or complex128 matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.structures import BlockDiagonal, ColumnOneHot, Dense, Diagonal, DiagonalPlusLowRank, RowOneHot, Structure
from statetrack.testing.compare import assert_close, assert_equal

Example = Callable[[torch.Generator, tuple[int, ...], int, torch.dtype], Structure]
"""``(generator, batch_shape, state_size, dtype) -> structure`` with random entries."""


def _normal(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=dtype)


def _one_hot(cls: type[ColumnOneHot] | type[RowOneHot]) -> Example:
    return lambda g, batch, n, dtype: cls(torch.randint(n, (*batch, n), generator=g), _normal(g, (*batch, n), dtype))


EXAMPLES: dict[type[Structure], Example] = {
    Diagonal: lambda g, batch, n, dtype: Diagonal(_normal(g, (*batch, n), dtype)),
    Dense: lambda g, batch, n, dtype: Dense(_normal(g, (*batch, n, n), dtype)),
    BlockDiagonal: lambda g, batch, n, dtype: BlockDiagonal(
        _normal(g, (*batch, 1, n, n) if n % 2 else (*batch, n // 2, 2, 2), dtype)
    ),
    ColumnOneHot: _one_hot(ColumnOneHot),
    DiagonalPlusLowRank: lambda g, batch, n, dtype: DiagonalPlusLowRank(
        _normal(g, (*batch, n), dtype), _normal(g, (*batch, n, 2), dtype), _normal(g, (*batch, n, 2), dtype)
    ),
    RowOneHot: _one_hot(RowOneHot),
}


def check_structure(structure: type[Structure], example: Example | None = None) -> None:
    """Check closure, associativity, identity, and that all operations equal those of dense matrices.

    Args:
        structure: the class.
        example: makes random instances; may be left out for the library's own structures.

    Raises:
        AssertionError: names the law and the numbers.
        InvalidInputError: no example is known for this class.
    """
    make = EXAMPLES.get(structure) if example is None else example
    if make is None:
        raise InvalidInputError(f"check_structure knows no example of {structure.__name__}; give one as the second argument.")
    for dtype in (torch.float64, torch.complex128):
        for n, batch in ((1, ()), (2, (0,)), (4, (2, 3)), (5, (3,))):
            generator = torch.Generator().manual_seed(n)
            a, b, c = (make(generator, batch, n, dtype) for _ in range(3))
            h, g = (_normal(generator, (*batch, n), dtype) for _ in range(2))
            try:
                _check_instances(structure, a, b, c, h, g)
                _check_gradients(a, b, h)
            except AssertionError as error:
                raise AssertionError(f"{structure.__name__}, N = {n}, batch {batch}, {dtype}: {error}") from error


def _check_instances(structure: type[Structure], a: Structure, b: Structure, c: Structure, h: Tensor, g: Tensor) -> None:
    dense, n, batch = a.to_dense(), a.state_size, a.batch_shape
    assert dense.shape == (*batch, n, n), f"to_dense has shape {tuple(dense.shape)}, expected {(*batch, n, n)}"
    assert a.dtype == dense.dtype == h.dtype, f"to_dense has dtype {dense.dtype}, the entries {a.dtype}"
    product = a.compose(b)
    assert type(product) is structure, f"closure: a product is a {type(product).__name__}"
    assert product.batch_shape == batch, f"closure: a product has batch dimensions {tuple(product.batch_shape)}"
    assert_close("compose = dense product", product.to_dense(), dense @ b.to_dense(), 1e-12)
    assert_close("associativity", product.compose(c).to_dense(), a.compose(b.compose(c)).to_dense(), 1e-12)
    unit = a.identity_like(batch)
    assert_equal("identity", unit.to_dense(), torch.eye(n, dtype=a.dtype).expand(dense.shape))
    assert_equal("identity on the left", unit.compose(a).to_dense(), dense)
    assert_equal("identity on the right", a.compose(unit).to_dense(), dense)
    assert_equal("identity applied", unit.apply(h), h)
    assert_close("apply = dense product", a.apply(h), (dense @ h.unsqueeze(-1)).squeeze(-1), 1e-12)
    assert_close("apply of a product", product.apply(h), a.apply(b.apply(h)), 1e-12)
    assert_close("apply_adjoint = dense adjoint", a.apply_adjoint(g), (dense.mH @ g.unsqueeze(-1)).squeeze(-1), 1e-12)
    inner, moved = (g.conj() * a.apply(h)).sum(-1), (a.apply_adjoint(g).conj() * h).sum(-1)
    assert_close("adjoint identity <g, A h> = <A^H g, h>", inner, moved, 1e-12)
    many = torch.stack([h, g])
    assert_close("apply broadcasts over leading dimensions", a.apply(many), torch.stack([a.apply(h), a.apply(g)]), 1e-12)
    adjoints = torch.stack([a.apply_adjoint(h), a.apply_adjoint(g)])
    assert_close("apply_adjoint broadcasts over leading dimensions", a.apply_adjoint(many), adjoints, 1e-12)
    _check_spectrum(a, dense)
    if batch:
        assert_equal("indexing", a[:1].to_dense(), dense[:1])
        assert_equal("cat", structure.cat([a, b], 0).to_dense(), torch.cat([dense, b.to_dense()]))
        spread = a.map_batch(lambda tensor, _: tensor.transpose(0, -1).contiguous().transpose(0, -1))
        assert_close("strided fields", spread.apply(h), a.apply(h), 1e-12)


def _check_spectrum(a: Structure, dense: Tensor) -> None:
    """``prod (z - lambda) = det(z - A)`` at more points than its degree: the eigenvalues are right, with multiplicity."""
    found, n = a.eigenvalues(), a.state_size
    assert found.shape == dense.shape[:-1], f"eigenvalues have shape {tuple(found.shape)}, expected {tuple(dense.shape[:-1])}"
    assert found.is_complex(), f"eigenvalues are {found.dtype}, expected complex"
    angles = torch.arange(n + 1) * (2 * torch.pi / (n + 1)) + 0.3
    for z in torch.polar(torch.tensor(2.0, dtype=torch.float64), angles.double()):
        expected = torch.linalg.det(z * torch.eye(n, dtype=torch.complex128) - dense)
        assert_close("characteristic polynomial from eigenvalues", (z - found).prod(-1), expected, 1e-9)


def _check_gradients(a: Structure, b: Structure, h: Tensor) -> None:
    """Analytic gradients of all operations against finite differences."""
    if not h.numel() or a.state_size > 4:
        return
    cls = type(a)
    parts = [(getattr(s, f.name).detach().clone(), f.name) for s in (a, b) for f in fields(s)]
    numeric = [t.requires_grad_() for t, _ in parts if t.is_floating_point() or t.is_complex()]

    def run(*values: Tensor) -> tuple[Tensor, ...]:
        given = iter(values[1:])
        full = [next(given) if t.is_floating_point() or t.is_complex() else t for t, _ in parts]
        half, names = len(full) // 2, [name for _, name in parts]
        first, second = (cls(**dict(zip(names[:half], full[i : i + half], strict=True))) for i in (0, half))
        state = values[0]
        return first.apply(state), first.apply_adjoint(state), first.compose(second).apply(state), second.to_dense()

    try:
        torch.autograd.gradcheck(run, (h.clone().requires_grad_(), *numeric))
    except RuntimeError as error:
        raise AssertionError(f"gradients of apply, apply_adjoint, compose and to_dense: {error}") from error
