"""The suite catches broken structures: each mutant of a sound one breaks a law by name."""

from dataclasses import dataclass

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.structures import Diagonal, RowOneHot
from statetrack.testing import check_structure


def diagonal_example(cls):
    return lambda generator, batch, n, dtype: cls(torch.randn(*batch, n, generator=generator, dtype=dtype))


def row_example(cls):
    return lambda generator, batch, n, dtype: cls(
        torch.randint(n, (*batch, n), generator=generator), torch.randn(*batch, n, generator=generator, dtype=dtype)
    )


class LeavesTheFamily(Diagonal):
    def compose(self, earlier):
        return Diagonal(self.value * earlier.value)


class ForgetsToConjugate(Diagonal):
    def apply_adjoint(self, g):
        return self.value * g


class AddsWhenComposing(Diagonal):
    def compose(self, earlier):
        return type(self)(self.value + earlier.value)


class StartsFromZero(Diagonal):
    @classmethod
    def identity(cls, state_size, batch_shape=(), *, dtype=None, device=None):
        return cls(torch.zeros(*batch_shape, state_size, dtype=dtype, device=device))


class ForgetsMultiplicity(Diagonal):
    def eigenvalues(self):
        return super().eigenvalues()[..., :1].expand_as(self.value)


class StopsTheGradient(Diagonal):
    def apply(self, h):
        return self.value.detach() * h


@dataclass(frozen=True, eq=False)
class ComposesInTheWrongOrder(RowOneHot):
    def compose(self, earlier):
        return RowOneHot.compose(earlier, self)


class TransposesItself(RowOneHot):
    def to_dense(self):
        return super().to_dense().mT


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (LeavesTheFamily, "closure"),
        (ForgetsToConjugate, "adjoint"),
        (AddsWhenComposing, "compose = dense product"),
        (StartsFromZero, "identity"),
        (ForgetsMultiplicity, "characteristic polynomial"),
    ],
)
def test_a_diagonal_mutant_is_caught(mutant, law):
    with pytest.raises(AssertionError, match=f"{mutant.__name__}.*{law}"):
        check_structure(mutant, diagonal_example(mutant))


def test_a_wrong_gradient_is_caught():
    with pytest.raises(AssertionError, match="gradients of apply"):
        check_structure(StopsTheGradient, diagonal_example(StopsTheGradient))


@pytest.mark.parametrize(
    ("mutant", "law"), [(ComposesInTheWrongOrder, "compose = dense product"), (TransposesItself, "compose = dense product")]
)
def test_a_row_mutant_is_caught(mutant, law):
    with pytest.raises(AssertionError, match=f"{mutant.__name__}.*{law}"):
        check_structure(mutant, row_example(mutant))


def test_structures_without_an_example_are_refused():
    with pytest.raises(InvalidInputError, match="give one"):
        check_structure(LeavesTheFamily)
