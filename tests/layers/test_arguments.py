"""What a layer is given is refused in words; what a layer was converted to is known at once."""

import copy

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers import layers, make_layer


def test_messages_say_what_fits_and_what_was_given():
    layer = make_layer("mamba", 4, d_state=2)
    x, state = torch.zeros(3, 5, 4), layer.initial_state(2)
    with pytest.raises(InvalidInputError, match=r"^Mamba needs x in torch.float32, got torch.float64; convert x or the layer"):
        layer(x.double())
    with pytest.raises(InvalidInputError, match=r"^Mamba needs x of shape \(B, 4\), got \(3, 5, 4\)\.$"):
        layer.step(x, state)
    wanted = r"row for each of 3 sequences, MambaState\(conv \(3, 3, 8\) float32, h \(3, 8, 2\) float32\)"
    with pytest.raises(
        InvalidInputError, match=wanted + r"; got MambaState\(conv \(2, 3, 8\) float32, h \(2, 8, 2\) float32\)\.$"
    ):
        layer(x, state)
    with pytest.raises(InvalidInputError, match=wanted + r"; got RNNState\(h \(3, 64\) float32\)\.$"):
        layer(x, make_layer("rnn", 4).initial_state(3))
    with pytest.raises(InvalidInputError, match=r"; got Tensor\.$"):
        layer(x, state.h)


def test_conversions_are_seen_after_the_first_call():
    layer = make_layer("mamba", 4)
    layer(torch.zeros(1, 2, 4))
    for convert, dtype in (("double", torch.float64), ("bfloat16", torch.bfloat16), ("float", torch.float32)):
        getattr(layer, convert)()
        y, state = layer(torch.zeros(1, 2, 4, dtype=dtype))
        assert copy.deepcopy(layer).step(torch.zeros(1, 4, dtype=dtype), state)[0].dtype == y.dtype == dtype
        with pytest.raises(InvalidInputError, match=f"^Mamba needs x in {dtype}, got torch.float16"):
            layer(torch.zeros(1, 2, 4, dtype=torch.float16))
    with pytest.raises(InvalidInputError, match=r"^Mamba needs x in torch.float64, got torch.float32"):
        layer.double()(torch.zeros(1, 2, 4))


def test_autocast_casts_what_is_not_float64():
    x = torch.zeros(1, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        make_layer("mamba", 4)(x.bfloat16())
        for layer, wrong in ((make_layer("mamba", 4), x.double()), (make_layer("mamba", 4).double(), x)):
            with pytest.raises(InvalidInputError, match="convert x or the layer"):
                layer(wrong)


@pytest.mark.parametrize("name", ["transformer", "path-attention"])
def test_caches_grow_as_one(name):
    layer = make_layer(name, 4)
    _, cache = layer(torch.zeros(2, 5, 4))
    layer.step(torch.zeros(2, 4), cache)
    with pytest.raises(InvalidInputError, match=r"k \(2, T, 4, [12]\).*; got \w+\(.*k \(2, 4, 4, "):
        layer.step(torch.zeros(2, 4), cache._replace(k=cache.k[:, 1:]))


@pytest.mark.parametrize("name", layers.names())
def test_steps_start_from_nothing(name):
    layer, x = make_layer(name, 4), torch.ones(2, 4)
    assert torch.equal(layer.step(x, None)[0], layer.step(x, layer.initial_state(2))[0])


def test_tensors_without_values_are_checked_too():
    layer, x = make_layer("transformer", 4).to("meta"), torch.zeros(2, 3, 4, device="meta")
    assert layer.step(x[:, 0], None)[0].shape == (2, 4)
    for wrong in (lambda: layer(x, layer.initial_state(1)), lambda: layer(x.bfloat16())):
        with pytest.raises(InvalidInputError, match="Transformer needs"):
            wrong()


def test_compiled_layers_refuse_too():
    layer = make_layer("rwkv7", 4, n_heads=2)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    x = torch.ones(2, 3, 4)
    with torch.no_grad():
        _, state = compiled(x)
        assert torch.allclose(compiled(x, state)[0], layer(x, state)[0])
        with pytest.raises(Exception, match="sequences"):
            compiled(x[:1], state)
    torch.compiler.reset()
