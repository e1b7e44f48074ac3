"""The suite catches broken layers: each mutant of a sound layer breaks a law by name."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers.base import Claim, Layer, Traits
from statetrack.scan import scan
from statetrack.structures import Dense, Diagonal
from statetrack.testing import check_layer


class DecayState(NamedTuple):
    h: Tensor


class Decay(Layer):
    """``h_t = a(x_t) h_{t-1} + W x_t``, ``y_t = V h_t``: sound; not registered."""

    traits = Traits("diagonal", "(0, 1)", "diagonal", Claim("unknown"), Claim("unknown"), None, "O(E)", "this test")

    def __init__(self, d_model: int, *, d_state: int = 4) -> None:
        super().__init__()
        if d_model < 1:
            raise InvalidInputError("d_model must be at least 1.")
        self.d_model, self.d_state = d_model, d_state
        self.decay, self.input, self.out = nn.Linear(d_model, d_state), nn.Linear(d_model, d_state), nn.Linear(d_state, d_model)

    def initial_state(self, batch_size):
        first = next(self.parameters())
        return DecayState(torch.zeros(batch_size, 1, self.d_state, dtype=torch.promote_types(first.dtype, torch.float32)))

    def transitions(self, x, state=None):
        return Diagonal(torch.sigmoid(self.decay(x)).unsqueeze(2))

    def _forward(self, x, state, cu_seqlens):
        drive = self.input(x).unsqueeze(2)
        states, final = scan(Decay.transitions(self, x), drive, state.h, cu_seqlens=cu_seqlens, backend="reference")
        return self.out(states.squeeze(2).to(x.dtype)), DecayState(final)


class IgnoresDocuments(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, DecayState(state.h[:1]), None)
        return y, state if cu_seqlens is not None else final


class IgnoresTheState(Decay):
    def _forward(self, x, state, cu_seqlens):
        return super()._forward(x, self.initial_state(len(state.h)), cu_seqlens)


class DetachesTheState(Decay):
    def _forward(self, x, state, cu_seqlens):
        return super()._forward(x, DecayState(state.h.detach()), cu_seqlens)


class DropsTheLastStep(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, _ = super()._forward(x, state, cu_seqlens)
        return y, super()._forward(x[:, :-1], state, None)[1] if cu_seqlens is None and x.shape[1] else state


class SwapsASign(Decay):
    def transitions(self, x, state=None):
        return Diagonal(-super().transitions(x).value)


class TransposesTheMatrix(Decay):
    """States rotate; the stated matrix is the transpose."""

    def _forward(self, x, state, cu_seqlens):
        matrix = self._matrix(x)
        states, final = scan(Dense(matrix), None, state.h, cu_seqlens=cu_seqlens, backend="reference")
        return self.out(states.squeeze(2).to(x.dtype)), DecayState(final)

    def transitions(self, x, state=None):
        return Dense(self._matrix(x).mT)

    def _matrix(self, x):
        return torch.diag_embed(self.decay(x)).roll(1, -1).unsqueeze(2) + 0 * self.input(x).unsqueeze(2).unsqueeze(-1)


class LooksAhead(Decay):
    def _forward(self, x, state, cu_seqlens):
        return super()._forward(x + 0.1 * x.mean(dim=1, keepdim=True), state, cu_seqlens)


class ReadsAWeight(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y + nn.functional.linear(x, self.get_parameter("decay.weight").mT @ self.get_parameter("decay.weight")), final


class HasADeadParameter(Decay):
    def __init__(self, d_model, *, d_state=4):
        super().__init__(d_model, d_state=d_state)
        self.unused = nn.Parameter(torch.ones(1))


class WritesIntoTheInput(Decay):
    def _forward(self, x, state, cu_seqlens):
        x.data.mul_(1.0).add_(1e-3)
        return super()._forward(x, state, cu_seqlens)


class RoundsToFloat32(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y.float().to(y.dtype), DecayState(final.h.float())


class StopsAGradient(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y + self.out(x.new_zeros(self.d_state)).detach(), final


class ScalesAGradient(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y + 0.5 * (y - y.detach()), final


class DrawsNoise(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y + 1e-3 * torch.randn_like(y), final


class SumsOverTheBatch(Decay):
    def _forward(self, x, state, cu_seqlens):
        return super()._forward(x + 1e-3 * x.sum(dim=0, keepdim=True), state, cu_seqlens)


class KeepsHalfPrecision(Decay):
    def _forward(self, x, state, cu_seqlens):
        y, final = super()._forward(x, state, cu_seqlens)
        return y, DecayState(final.h.to(y.dtype))


class NeedsAnEvenWidth(Decay):
    def __init__(self, d_model, *, d_state=4):
        super().__init__(d_model // 2 * 2, d_state=d_state)
        self.d_model = d_model


class AcceptsAnything(Decay):
    def forward(self, x, state=None, *, mask=None, cu_seqlens=None):
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.bool()
        return super().forward(x, state, mask=mask, cu_seqlens=cu_seqlens)


class StepsUnchecked(Decay):
    def step(self, x_t, state):
        y, state = self._forward(x_t.unsqueeze(1), state, None)
        return y.squeeze(1), state


class ForgivesStates(Decay):
    def forward(self, x, state=None, *, mask=None, cu_seqlens=None):
        rows = len(x) if cu_seqlens is None else len(cu_seqlens) - 1
        if isinstance(state, DecayState) and len(state.h) != rows:
            state = DecayState(state.h[:1].expand(rows, -1, -1))
        return super().forward(x, state, mask=mask, cu_seqlens=cu_seqlens)


def test_a_sound_layer_passes():
    check_layer(Decay, d_state=3)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (IgnoresDocuments, "packed_documents_equal_a_loop"),
        (IgnoresDocuments, "padding_changes_nothing"),
        (IgnoresDocuments, "documents_do_not_leak"),
        (IgnoresTheState, "steps_equal_forward"),
        (DetachesTheState, "gradients_reach_the_initial_state"),
        (DetachesTheState, "any_split_equals_one_pass"),
        (DetachesTheState, "nothing_read_leaves_the_state"),
        (DropsTheLastStep, "any_split_equals_one_pass"),
        (SwapsASign, "transitions_carry_the_state"),
        (TransposesTheMatrix, "transitions_carry_the_state"),
        (LooksAhead, "later_tokens_do_not_matter"),
        (ReadsAWeight, "linear_maps_can_be_wrapped"),
        (HasADeadParameter, "every_parameter_gets_a_gradient"),
        (WritesIntoTheInput, "arguments_are_left_alone"),
        (RoundsToFloat32, "float64_stays_float64"),
        (StopsAGradient, "gradients_are_derivatives"),
        (ScalesAGradient, "gradients_are_derivatives"),
        (DrawsNoise, "runs_repeat_bit_for_bit"),
        (DrawsNoise, "arguments_are_left_alone"),
        (SumsOverTheBatch, "rows_do_not_mix"),
        (KeepsHalfPrecision, "half_precision_keeps_states_in_float32"),
        (NeedsAnEvenWidth, "any_width_works"),
        (AcceptsAnything, "wrong_arguments_are_refused"),
        (StepsUnchecked, "wrong_arguments_are_refused"),
        (ForgivesStates, "wrong_arguments_are_refused"),
    ],
)
def test_a_mutant_is_caught(mutant, law):
    with pytest.raises(AssertionError, match=rf"{mutant.__name__}\(6, \) breaks {law}: "):
        check_layer(mutant, laws=[law])
    check_layer(Decay, laws=[law])


def test_unknown_laws_are_refused():
    with pytest.raises(UnknownNameError, match="steps_equal_forward"):
        check_layer(Decay, laws=["step_equals_forward"])


def test_laws_can_be_left_out():
    check_layer(HasADeadParameter, laws=["every_parameter_gets_a_gradient"], exclude=["every_parameter_gets_a_gradient"])
