"""Equations of the PD layers written out token by token from a layer's parameters, and weights that emulate an automaton."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch


def linear(module, u):
    """``W u + b`` for one vector."""
    out = module.weight @ u
    return out if module.bias is None else out + module.bias


def two_layers(modules, u):
    first, last = modules[0], modules[-1]
    hidden = linear(first, u)
    return linear(last, 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2))))


def diagonal(layer, u):
    """``D(u)`` of shape ``(H, N)`` for one input vector: sigmoid modulus, phase ``2 pi sigmoid``, two-layer networks."""
    generator = layer.diagonal
    modulus = torch.sigmoid(two_layers(generator.magnitude, u))
    phase = 2 * math.pi * torch.sigmoid(two_layers(generator.phase, u))
    return (modulus * torch.exp(1j * phase)).view(layer.n_heads, layer.d_state)


def additive(layer, u):
    """``B u`` of shape ``(H, N)``: the first half of the rows is the real part."""
    out = layer.input.weight @ u
    half = len(out) // 2
    return (out[:half] + 1j * out[half:]).view(layer.n_heads, layer.d_state)


def affine_readout(layer, state, u):
    features = torch.cat([state.real.flatten(), state.imag.flatten()])
    return linear(layer.readout.out, features) + layer.readout.skip * u


def selection_matrix(scores, column):
    """One-hot columns (or rows) of the largest score, by plain loops."""
    n, scores = len(scores), scores.detach()
    out = torch.zeros(n, n, dtype=torch.complex128)
    for i in range(n):
        if column:
            out[max(range(n), key=lambda row, col=i: float(scores[row, col])), i] = 1
        else:
            out[i, max(range(n), key=lambda col, row=i: float(scores[row, col]))] = 1
    return out


def run(layer, x, matrix):
    """Outputs ``(L, E)`` and last state ``(H, N)`` for one sequence; ``matrix(u, h)`` is the dense transition of head ``h``."""
    states = torch.zeros(layer.n_heads, layer.d_state, dtype=torch.complex128)
    states[:, 0] = 1
    outputs = []
    for u in x:
        b = additive(layer, u)
        states = torch.stack([matrix(u, h) @ states[h] + b[h] for h in range(layer.n_heads)])
        outputs.append(affine_readout(layer, states, u))
    return torch.stack(outputs), states


def emulator(layer_class, table, gamma, orientation="column", **options):
    """Weights of the exact emulation: one-hot tokens, one dictionary entry per letter, ``D = 1``, no additive input."""
    n_states, n_letters = table.shape
    layer = layer_class(
        max(n_states, n_letters),
        d_state=n_states,
        dictionary_size=n_letters,
        orientation=orientation,
        d_field="real",
        modulus="unit",
        additive_input=False,
        skip=False,
        **options,
    )
    with torch.no_grad():
        layer.router.weight.copy_(gamma * torch.eye(*layer.router.weight.shape))
        layer.readout.out.weight.copy_(torch.eye(*layer.readout.out.weight.shape))
        layer.readout.out.bias.zero_()
        layer.scores.zero_()
        for letter in range(n_letters):
            layer.scores[0, letter, torch.as_tensor(table[:, letter]), torch.arange(n_states)] = 1
    return layer


def emulated_states(layer, letters):
    """States visited, read by argmax, for one word."""
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(torch.as_tensor(letters), layer.d_model).float().unsqueeze(0))
    return y[0, :, : layer.d_state].argmax(-1).numpy()


def visited(table, letters):
    state, out = 0, []
    for letter in letters:
        state = table[state, letter]
        out.append(state)
    return np.array(out)


@pytest.fixture
def pd_equations():
    names = (linear, two_layers, diagonal, additive, affine_readout, selection_matrix, run)
    return SimpleNamespace(**{function.__name__: function for function in names})


@pytest.fixture
def emulation():
    return SimpleNamespace(emulator=emulator, emulated_states=emulated_states, visited=visited)
