"""The streaming convolution against ``torch.nn.functional.conv1d``, document by document."""

import itertools

import pytest
import torch

from statetrack.layers.convolution import CausalConvolution


def expected(module, x, history):
    """``(B, L, C)`` by a dense convolution over the history and the inputs."""
    line = torch.cat([history, x], dim=1).mT
    y = torch.nn.functional.conv1d(line, module.weight.unsqueeze(1), module.bias, groups=module.weight.shape[0])
    return y.mT


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 9])
def test_equals_a_dense_convolution(width, bias, length):
    torch.manual_seed(0)
    module = CausalConvolution(3, width, bias=bias).double()
    x = torch.randn(2, length, 3, dtype=torch.float64)
    history = torch.randn(2, width - 1, 3, dtype=torch.float64)
    y, state = module(x, history)
    torch.testing.assert_close(y, expected(module, x, history), rtol=1e-12, atol=1e-12)
    assert torch.equal(state, torch.cat([history, x], dim=1)[:, length:])


@pytest.mark.parametrize("width", [1, 4])
def test_windows_never_cross_documents(width):
    torch.manual_seed(1)
    module = CausalConvolution(3, width).double()
    offsets = [0, 0, 2, 7, 7, 8]
    x = torch.randn(1, 8, 3, dtype=torch.float64)
    history = torch.randn(5, width - 1, 3, dtype=torch.float64)
    y, state = module(x, history, torch.tensor(offsets))
    for s, (a, b) in enumerate(itertools.pairwise(offsets)):
        alone, own = x[:, a:b], history[s : s + 1]
        if b > a:
            torch.testing.assert_close(y[:, a:b], expected(module, alone, own), rtol=1e-12, atol=1e-12)
        assert torch.equal(state[s], torch.cat([own, alone], dim=1)[0, b - a :])


def test_half_precision_state_is_float32():
    module = CausalConvolution(3).half()
    y, state = module(torch.randn(2, 5, 3).half(), module.initial_state(2))
    assert (y.dtype, state.dtype) == (torch.float16, torch.float32)
