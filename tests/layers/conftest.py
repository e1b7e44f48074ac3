"""Equations of the PD layers and of Mamba written out token by token from a layer's parameters, and weights that emulate an
automaton."""

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


def run_mamba(layer, x, transition):
    """Outputs ``(L, E)``, last convolution inputs and last state ``(C, N)`` for one sequence through a layer of the Mamba kind;
    ``transition(dt, a)`` lists the diagonal of a channel from its time step and its ``A``."""
    channels, n, rank = len(layer.D), layer.d_state, layer.dt_rank
    window = torch.zeros(layer.conv.weight.shape[1], channels, dtype=x.dtype)
    states = torch.zeros(channels, n, dtype=x.dtype)
    outputs = []
    for u in x:
        projected = layer.in_proj.weight @ u
        window = torch.cat([window[1:], projected[None, :channels]])
        z = projected[channels:]
        v = (window * layer.conv.weight.mT).sum(0) + layer.conv.bias
        v = v * torch.sigmoid(v)
        mixed = layer.x_proj.weight @ v
        r, b, c = mixed[:rank], mixed[rank : rank + n], mixed[rank + n :]
        dt = torch.log1p(torch.exp(layer.dt_proj.weight @ r + layer.dt_proj.bias))
        for channel in range(channels):
            a = -torch.exp(layer.A_log[channel])
            for i, entry in enumerate(transition(dt[channel], a)):
                states[channel, i] = entry * states[channel, i] + dt[channel] * b[i] * v[channel]
        y = states @ c + layer.D * v
        outputs.append(layer.out_proj.weight @ (y * z * torch.sigmoid(z)))
    return torch.stack(outputs), window[1:], states


@pytest.fixture
def mamba_run():
    return run_mamba


@pytest.fixture
def pd_equations():
    names = (linear, two_layers, diagonal, additive, affine_readout, selection_matrix, run)
    return SimpleNamespace(**{function.__name__: function for function in names})


@pytest.fixture
def emulation():
    return SimpleNamespace(emulator=emulator, emulated_states=emulated_states, visited=visited)


def unit(vector):
    return vector / torch.sqrt((vector * vector).sum() + 1e-6)


def run_delta(layer, x, rule, activate_keys=True, gate=None):
    """Outputs ``(L, E)`` and states ``(L, H, K, V)`` of one sequence through a layer of the delta family: ``S <- A S + B``.

    ``rule(u, h, k, v)`` gives A and B of head ``h`` from its key and value and the layer's input ``u``; where a token has several
    keys, ``rule(u, h, k, v, j)`` those of key ``j``. ``gate(u)`` is the output gate, by default a sigmoid of two maps.
    """
    heads, readout = layer.heads, layer.readout
    projections = [m for m in (heads.q_proj, heads.k_proj, heads.v_proj) if m is not None]
    weight = torch.cat([m.weight for m in projections])
    window = torch.zeros(4, len(weight), dtype=x.dtype)
    n_heads, k_size, v_size = layer.n_heads, layer.d_head, layer.d_value
    s = torch.zeros(n_heads, k_size, v_size, dtype=x.dtype)
    if heads.v_proj is None:
        s = s + torch.eye(k_size, v_size, dtype=x.dtype)
    outputs, states = [], []
    for u in x:
        window = torch.cat([window[1:], (weight @ u)[None]])
        mixed = window[-1] if heads.conv is None else (window * heads.conv.weight.mT).sum(0)
        smooth = mixed * torch.sigmoid(mixed)
        n_keys = (1 + heads.substeps) * n_heads * k_size
        keys = (smooth if activate_keys else mixed)[:n_keys].view(1 + heads.substeps, n_heads, k_size)
        values = smooth[n_keys:] if heads.v_proj is not None else x.new_zeros(heads.substeps * n_heads * v_size)
        values = values.view(heads.substeps, n_heads, v_size)
        read = []
        for h in range(n_heads):
            for j in range(heads.substeps):
                which = () if heads.substeps == 1 else (j,)
                a, b = rule(u, h, unit(keys[1 + j, h]), values[j, h], *which)
                s = torch.cat([s[:h], (a @ s[h] + b)[None], s[h + 1 :]])
            o = s[h].mT @ unit(keys[0, h]) / math.sqrt(k_size)
            read.append(readout.norm.weight * o / torch.sqrt((o * o).mean() + 1e-5))
        y = torch.cat(read)
        if readout.gate is not None:
            y = y * (torch.sigmoid(two_maps(readout.gate, u)) if gate is None else gate(u))
        outputs.append(readout.out.weight @ y)
        states.append(s)
    return torch.stack(outputs), torch.stack(states)


def two_maps(modules, u):
    return linear(modules[1], linear(modules[0], u))


def channel_log_decay(gate, u):
    """``log a (H, K)`` of KDA."""
    logits = two_maps(gate.project, u).view(gate.dt_bias.shape) + gate.dt_bias
    rate = torch.exp(gate.A_log)[:, None]
    return -5 / (1 + torch.exp(-rate * logits)) if gate.bounded else -rate * torch.log(1 + torch.exp(logits))


def householder_rule(layer, scale):
    """``rule`` of DeltaNet, DeltaProduct and their gated forms; beta lies in ``(0, scale)``."""

    def rule(u, h, k, v, j=0):
        beta = scale / (1 + torch.exp(-layer.strength.b_proj.weight[j * layer.n_heads + h] @ u))
        a = torch.eye(len(k), dtype=k.dtype) - beta * torch.outer(k, k)
        if layer.forget is not None and j == 0:
            forget = layer.forget
            dt = torch.log(1 + torch.exp(forget.a_proj.weight[h] @ u + forget.dt_bias[h]))
            a = a * torch.exp(-torch.exp(forget.A_log[h]) * dt)
        return a, beta * torch.outer(k, v)

    return rule


def silu_gate(layer):
    """The output gate of the same layers."""

    def gate(u):
        z = layer.readout.gate.weight @ u
        return z * torch.sigmoid(z)

    return gate


def run_householder(layer, x, scale):
    return run_delta(layer, x, householder_rule(layer, scale), gate=silu_gate(layer))


def set_reflections(layer, keys, strengths, values=None):
    """Weights under which letter ``i``, as a one-hot input, makes the steps of strength ``strengths[i, j]`` (0, 1 or 2) along
    ``keys[i, j]`` (no negative entries) and reads in the direction (cos 0.3, sin 0.3); outputs are what was read, at length 1."""
    letters, _, size = keys.shape
    big = 1e4  # silu(big) = big and sigmoid(big) = 1 to the last digit
    with torch.no_grad():
        layer.heads.k_proj.weight.copy_(big * keys.flatten(1).mT)
        layer.heads.q_proj.weight.copy_(big * torch.tensor([[math.cos(0.3)], [math.sin(0.3)]]).expand(size, letters))
        layer.strength.b_proj.weight.copy_(big * (strengths.mT - 1))
        if values is not None:
            logits = torch.zeros_like(values)
            logits[values == 1] = 1.2784645427610738  # silu of it is 1
            layer.heads.v_proj.weight.copy_(logits.flatten(1).mT)
        layer.readout.out.weight.zero_()
        layer.readout.out.weight[:size] = torch.eye(size) / math.sqrt(size)


def angle_keys(angles):
    """Unit vectors ``(..., 2)``."""
    return torch.stack([torch.as_tensor(angles).cos(), torch.as_tensor(angles).sin()], -1).clamp(min=0)


def dihedral_reads(n, word):
    """``(L, 2)``: the direction (cos 0.3, sin 0.3) seen through the product of a word of the symmetries of the regular n-gon, by
    counting. Letters are ``("turn", j)``, by 2 pi j / n, and ``("mirror", i)``, whose normal is at pi i / n."""
    turned, mirrored, out = 0, False, []
    for kind, i in word:
        turned = (turned + i if kind == "turn" else i - turned) % n
        mirrored ^= kind == "mirror"
        angle = 0.3 - 2 * math.pi * turned / n  # transposed: turned back, then mirrored
        out.append([-math.cos(angle) if mirrored else math.cos(angle), math.sin(angle)])
    return np.array(out)


@pytest.fixture
def reflections():
    return SimpleNamespace(set=set_reflections, keys=angle_keys, dihedral_reads=dihedral_reads)


@pytest.fixture
def delta_equations():
    return SimpleNamespace(
        run=run_delta, run_householder=run_householder, two_maps=two_maps, log_decay=channel_log_decay, rule=householder_rule
    )
