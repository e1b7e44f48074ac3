"""The complex diagonal layer, its generators of ``D`` and its readouts, against their equations."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.complex_diagonal import ComplexDiagonal


@pytest.mark.parametrize("n_heads", [1, 2])
def test_outputs_follow_the_equations(pd_equations, n_heads):
    torch.manual_seed(0)
    layer = ComplexDiagonal(5, d_state=4, n_heads=n_heads, initial_state="first").double()
    x = torch.randn(9, 5, dtype=torch.float64)
    with torch.no_grad():
        expected, last = pd_equations.run(layer, x, lambda u, h: torch.diag(pd_equations.diagonal(layer, u)[h]))
    y, state = layer(x.unsqueeze(0))
    torch.testing.assert_close(y[0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.h[0], last, rtol=1e-12, atol=1e-12)


def test_initial_states():
    torch.manual_seed(1)
    zero, first, learned = (ComplexDiagonal(3, d_state=2, initial_state=kind) for kind in ("zero", "first", "learned"))
    assert zero.initial_state(2).h.tolist() == [[[0, 0]]] * 2
    assert first.initial_state(2).h.tolist() == [[[1, 0]]] * 2
    assert learned.initial_state(2).h.tolist() == [[[1, 0]]] * 2
    assert not any(p is zero.start for p in zero.parameters())
    assert any(p is learned.start for p in learned.parameters())


def test_affine_and_decay_phase_generators():
    torch.manual_seed(2)
    u = torch.randn(2, 3, 5, dtype=torch.float64)
    affine = ComplexDiagonal(5, d_state=4, d_generator="affine").double().diagonal
    modulus, phase = torch.sigmoid(affine.magnitude(u)), 2 * math.pi * torch.sigmoid(affine.phase(u))
    torch.testing.assert_close(affine(u)[:, :, 0], modulus * torch.exp(1j * phase), rtol=1e-12, atol=1e-12)
    decay = ComplexDiagonal(5, d_state=4, d_generator="decay_phase").double().diagonal
    rate = torch.log1p(torch.exp(decay.magnitude(u))) * torch.exp(decay.a_log)
    expected = torch.exp(-rate) * torch.exp(1j * decay.phase(u))
    torch.testing.assert_close(decay(u)[:, :, 0], expected, rtol=1e-12, atol=1e-12)


def test_decay_rates_stay_float32():
    layer = ComplexDiagonal(4, d_generator="decay_phase").half()
    assert layer.diagonal.a_log.dtype == torch.float32
    assert layer.diagonal.magnitude.weight.dtype == torch.float16


@pytest.mark.parametrize("kind", ["mlp", "affine", "decay_phase"])
def test_modulus_and_field_options(kind):
    torch.manual_seed(3)
    u = 3 * torch.randn(2, 50, 5)
    below = ComplexDiagonal(5, d_state=4, d_generator=kind).diagonal(u)
    assert ((below.abs() > 0) & (below.abs() < 1)).all()
    unit = ComplexDiagonal(5, d_state=4, d_generator=kind, modulus="unit").diagonal(u)
    torch.testing.assert_close(unit.abs(), torch.ones_like(unit.abs()))
    real = ComplexDiagonal(5, d_state=4, d_generator=kind, d_field="real").diagonal(u)
    assert real.dtype == torch.float32
    assert ((real > 0) & (real < 1)).all()


def test_magnitude_bias_sets_where_memory_starts():
    torch.manual_seed(4)
    biased = ComplexDiagonal(5, d_state=4, magnitude_bias=3.0).diagonal
    assert (biased.magnitude[-1].bias == 3.0).all()
    plain = ComplexDiagonal(5, d_state=4, magnitude_bias=None).diagonal
    assert (plain.magnitude[-1].bias.abs() <= 1 / math.sqrt(8)).all()


@pytest.mark.parametrize("n_heads", [1, 2])
def test_readouts(n_heads):
    torch.manual_seed(5)
    states = torch.randn(2, 3, n_heads, 4, dtype=torch.complex128)
    u = torch.randn(2, 3, 5, dtype=torch.float64)
    features = torch.cat([states.real.flatten(2), states.imag.flatten(2)], dim=-1)
    size = 4 * n_heads

    def readout(kind):
        return ComplexDiagonal(5, d_state=4, n_heads=n_heads, readout=kind).double().readout

    real = readout("real")
    c = torch.complex(real.out.weight[:, :size], -real.out.weight[:, size:])
    expected = (states.flatten(2) @ c.mT).real + real.skip * u
    torch.testing.assert_close(real(states, u), expected, rtol=1e-12, atol=1e-12)
    assert real.out.bias is None
    mlp = readout("mlp")
    hidden = features @ mlp.out[0].weight.mT + mlp.out[0].bias
    hidden = 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2)))
    expected = hidden @ mlp.out[2].weight.mT + mlp.out[2].bias + mlp.skip * u
    torch.testing.assert_close(mlp(states, u), expected, rtol=1e-12, atol=1e-12)
    gated = readout("gated")
    weight = u @ gated.selector.weight.mT
    chosen = torch.complex(weight[..., :size], weight[..., size:]).unflatten(-1, (n_heads, 4))
    mixed = (chosen * states).real
    epsilon = torch.finfo(torch.float64).eps
    normed = mixed / (mixed.square().mean(-1, keepdim=True) + epsilon).sqrt() * gated.head_norm.weight
    gate = u @ gated.gate.weight.mT
    expected = (normed.flatten(2) * gate * torch.sigmoid(gate)) @ gated.out.weight.mT + gated.skip * u
    torch.testing.assert_close(gated(states, u), expected, rtol=1e-10, atol=1e-12)


def test_rotations_count_modulo_any_number():
    """One complex number tracks Z_5: ``D = exp(2 pi i / 5)`` for every token."""
    options = {"modulus": "unit", "additive_input": False, "initial_state": "first", "d_generator": "affine"}
    layer = ComplexDiagonal(2, d_state=1, **options).double()
    with torch.no_grad():
        layer.diagonal.phase.weight.zero_()
        layer.diagonal.phase.bias.fill_(math.log(0.2 / 0.8))
    _, state = layer(torch.randn(1, 5 * 200 + 2, 2, dtype=torch.float64))
    expected = torch.exp(torch.tensor(2j * math.pi * 2 / 5, dtype=torch.complex128))
    torch.testing.assert_close(state.h[0, 0, 0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "options", [{"d_state": 0}, {"d_generator": "none"}, {"modulus": "1"}, {"readout": "sum"}, {"additive_input": False}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        ComplexDiagonal(4, **options)
