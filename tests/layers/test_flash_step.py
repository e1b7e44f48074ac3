"""One token in one kernel call: equal to the layer's pass in double precision, and used only where nothing else has a say."""

import copy

import pytest
import torch
from torch import nn

from statetrack.layers import flash_step
from statetrack.layers.flash_pd_ssm import FlashPDSSM

VARIANTS = [
    {},
    {"d_field": "real"},
    {"orientation": "row", "n_heads": 3},
    {"d_generator": "decay_phase", "readout": "gated", "n_heads": 2},
    {"d_generator": "affine", "modulus": "annealed", "readout": "real"},
    {"d_generator": "decay_phase", "modulus": "annealed", "d_field": "real", "readout": "gated"},
    {"modulus": "unit", "additive_input": False, "skip": False, "readout": "mlp"},
]


def layer_of(**options):
    torch.manual_seed(0)
    layer = FlashPDSSM(6, d_state=5, dictionary_size=4, **options)
    layer.set_progress(0.25)
    return layer


@pytest.fixture
def calls(monkeypatch):
    """What the kernel gave at every call of ``step``; None where it did not run."""
    seen = []
    real = flash_step.one_call_step

    def spy(*args):
        seen.append(real(*args))
        return seen[-1]

    monkeypatch.setattr("statetrack.layers.flash_pd_ssm.one_call_step", spy)
    return seen


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_steps_equal_the_pass_in_double_precision(options, rows, calls):
    layer = layer_of(**options)
    x = torch.randn(rows, 20, 6, generator=torch.Generator().manual_seed(1))
    exact = copy.deepcopy(layer).double()
    exact.backend = "reference"
    with torch.no_grad():
        expected, final = exact(x.double())
        state, before = layer.initial_state(rows), layer.initial_state(rows).h.clone()
        for t in range(20):
            y, state = layer.step(x[:, t], state)
            torch.testing.assert_close(y.double(), expected[:, t], rtol=2e-5, atol=2e-5)
    assert len(calls) == 20 and None not in calls
    torch.testing.assert_close(state.h, final.h.to(state.h.dtype), rtol=2e-5, atol=2e-5)
    assert torch.equal(layer.initial_state(rows).h, before)


def test_any_layout_of_the_arguments(calls):
    layer = layer_of()
    x, h = torch.randn(2, 12)[:, ::2], torch.randn(2, 5, 1, dtype=torch.complex64).transpose(1, 2)
    with torch.no_grad():
        y, state = layer.step(x, layer.initial_state(2)._replace(h=h.conj()))
        expected, plain = layer(x.contiguous().unsqueeze(1), layer.initial_state(2)._replace(h=h.conj().resolve_conj()))
    assert calls[0] is not None
    torch.testing.assert_close(y, expected[:, 0])
    torch.testing.assert_close(state.h, plain.h)


class Doubled(nn.Linear):
    """A wrapped linear map, as an adapter would be."""

    def forward(self, x):
        return 2 * super().forward(x)


def hooked(layer):
    layer.router.register_forward_hook(lambda module, args, out: -out)


def wrapped(layer):
    layer.input.__class__ = Doubled


def wider(layer):
    layer.double()


def other_backend(layer):
    layer.backend = "tree"


@pytest.mark.parametrize("change", [hooked, wrapped, wider, other_backend])
def test_what_the_kernel_would_miss_keeps_it_out(change, calls):
    layer = layer_of()
    change(layer)
    x = torch.randn(2, 6, dtype=layer.router.weight.dtype)
    with torch.no_grad():
        y, _ = layer.step(x, layer.initial_state(2))
        expected = layer(x.unsqueeze(1))[0][:, 0]
    assert calls == [None]
    assert torch.equal(y, expected)


def test_gradients_flow_through_a_step_and_large_batches_use_products(calls):
    layer = layer_of()
    x = torch.randn(2, 6, requires_grad=True)
    layer.step(x, layer.initial_state(2))[0].sum().backward()
    assert x.grad.abs().sum() > 0
    with torch.no_grad():
        layer.step(torch.randn(64, 6), layer.initial_state(64))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer.step(torch.randn(2, 6), layer.initial_state(2))
    assert calls == [None, None, None]


def test_weights_that_change_are_seen(calls):
    layer = layer_of()
    x, state = torch.randn(1, 6), layer.initial_state(1)
    with torch.no_grad():
        first = layer.step(x, state)[0]
        layer.scores.data.neg_()
        layer.readout.out.weight.data = 3 * layer.readout.out.weight.data
        second = layer.step(x, state)[0]
        assert not torch.allclose(first, second)
        torch.testing.assert_close(second, layer(x.unsqueeze(1), state)[0][:, 0])
