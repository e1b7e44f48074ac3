"""Mamba-3 against its published form, with accumulated rotations, and counting modulo 6 with weights set by hand."""

import math

import pytest
import torch
from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.mamba3 import Mamba3


def turned(x, phi):
    """Pairs ``(2i, 2i + 1)`` of a vector turned by ``phi[i]``, one after another."""
    out = x.clone()
    for i, angle in enumerate(phi):
        a, b = x[2 * i], x[2 * i + 1]
        out[2 * i] = a * torch.cos(angle) - b * torch.sin(angle)
        out[2 * i + 1] = a * torch.sin(angle) + b * torch.cos(angle)
    return out


def rms_normed(x, weight):
    return weight * x / torch.sqrt((x**2).mean() + 1e-5)


def rate(a):
    return max(1 + float(a) if a >= 0 else 1 / (1 - float(a)), 1e-4)


def reference(layer, x):
    """Outputs and the last state ``(H, N, P)`` of one sequence, token by token, with turned keys and a state that does not turn.

    The state is returned turned back, which is how the layer keeps it.
    """
    heads, n, p, ranks = layer.n_heads, layer.d_state, layer.d_head, layer.rank
    maps = [m if m is not None else torch.ones(1, heads, p, dtype=x.dtype) for m in (layer.M_x, layer.M_z, layer.M_o)]
    states = torch.zeros(heads, n, p, dtype=x.dtype)
    phi = torch.zeros(heads, layer.n_angles, dtype=x.dtype)
    keys, values = torch.zeros(heads, ranks, n, dtype=x.dtype), torch.zeros(heads, ranks, p, dtype=x.dtype)
    outputs = []
    for u in x:
        z, v, b, c, r, a, trap, angle = (layer.in_proj.weight @ u).split(layer.sizes)
        mixed = torch.zeros(heads * p, dtype=x.dtype)
        for h in range(heads):
            own = slice(h * p, (h + 1) * p)
            dt = torch.log(1 + torch.exp(r[h] + layer.dt_bias[h]))
            alpha, lam = torch.exp(-dt * rate(a[h])), 1 / (1 + torch.exp(-trap[h]))
            phi[h] = torch.remainder(phi[h] + math.pi * torch.tanh(angle) * dt, 2 * math.pi)
            states[h] = alpha * states[h]
            for i in range(ranks):
                states[h] = states[h] + (1 - lam) * dt * alpha * torch.outer(keys[h, i], values[h, i])
                keys[h, i] = turned(rms_normed(b[i * n : (i + 1) * n], layer.B_norm.weight) + layer.B_bias[i, h], phi[h])
                values[h, i] = v[own] * maps[0][i, h]
                states[h] = states[h] + lam * dt * torch.outer(keys[h, i], values[h, i])
            for i in range(ranks):
                q = turned(rms_normed(c[i * n : (i + 1) * n], layer.C_norm.weight) + layer.C_bias[i, h], phi[h])
                y = states[h].T @ q + layer.D[h] * values[h, i]
                gate = z[own] * maps[1][i, h]
                mixed[own] += maps[2][i, h] * y * gate / (1 + torch.exp(-gate))
        outputs.append(layer.out_proj.weight @ mixed)
    back = [torch.stack([turned(column, -phi[h]) for column in states[h].T], -1) for h in range(heads)]
    return torch.stack(outputs), torch.stack(back)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rotation": "all", "chunk_size": 2},
        {"rank": 2, "chunk_size": 4},
        {"rank": 3, "d_state": 2, "expand": 1},
        {"backend": "reference", "d_state": 8},
    ],
)
def test_outputs_follow_the_published_form(options):
    torch.manual_seed(0)
    layer = Mamba3(5, **{"d_state": 4, "d_head": 4, "chunk_size": 3, **options}).double()
    with torch.no_grad():
        layer.dt_bias.add_(4.0)
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    with torch.no_grad():
        y, state = layer(x)
        for row in range(2):
            expected, s = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(state.s[row], s, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("rotation", "pairs"), [("half", 2), ("all", 4)])
def test_eigenvalues_are_decayed_rotations(rotation, pairs):
    torch.manual_seed(1)
    layer = Mamba3(6, d_state=8, d_head=6, rotation=rotation).double()
    with torch.no_grad():
        layer.dt_bias.fill_(0.5)
    x = torch.randn(1, 5, 6, dtype=torch.float64)
    layer.requires_grad_(False)
    found = layer.transitions(x).eigenvalues()
    assert found.shape == (1, 5, 2, 8)
    assert found.abs().max() < 1
    r, a, _, angle = (x[0] @ layer.in_proj.weight.T).split(layer.sizes, -1)[4:]
    for t in range(5):
        for h in range(2):
            dt = math.log(1 + math.exp(r[t, h] + layer.dt_bias[h]))
            size = math.exp(-dt * rate(a[t, h]))
            turns = [math.pi * math.tanh(p) * dt for p in angle[t]] + [0.0] * (4 - pairs)
            expected = [size * complex(math.cos(s * turn), math.sin(s * turn)) for turn in turns for s in (1, -1)]
            for value in found[0, t, h].tolist():
                nearest = min(expected, key=lambda e, v=value: abs(e - v))
                assert abs(nearest - value) < 1e-12
                expected.remove(nearest)


def test_counting_modulo_6_with_weights_set_by_hand():
    """A first token writes; letter k turns by k / 6 of a circle at the slowest decay; two heads read cosine and sine."""
    layer = Mamba3(8, d_state=4, d_head=4, expand=1).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        z, v, _, _, r, a, trap, angle = layer.in_proj.weight.split(layer.sizes)
        z.fill_(1.0)
        v[[0, 4], 0] = 1.0
        layer.dt_bias.fill_(math.log(math.e - 1))
        r.zero_()
        a.fill_(-1e5)
        trap.fill_(40.0)
        for k in range(1, 6):
            share = k / 3 if k <= 3 else k / 3 - 2
            angle[0, 2 + k] = 25.0 if k == 3 else math.atanh(share)
        layer.B_bias[..., 0] = 1.0
        layer.C_bias[0, 0, 0] = layer.C_bias[0, 1, 1] = 1.0
        layer.out_proj.weight.copy_(torch.eye(8))
    letters = torch.randint(1, 6, (3, 3000), generator=torch.Generator().manual_seed(2))
    tokens = torch.cat([torch.zeros(3, 1, dtype=torch.long), 2 + letters], dim=1)
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(tokens, 8).double())
    cosine, sine = y[:, 1:, 0], -y[:, 1:, 4]
    count = torch.round(torch.atan2(sine, cosine) * 6 / (2 * math.pi)).long() % 6
    assert torch.equal(count, letters.cumsum(1) % 6)
    size = torch.hypot(cosine, sine)
    torch.testing.assert_close(size[:, -1] / size[:, 0], torch.full((3,), math.exp(-0.2999), dtype=torch.float64))


def test_phases_do_not_blur_on_long_inputs():
    """4,000 tokens in single precision against double precision, with turns of about a radian each."""
    torch.manual_seed(3)
    layer = Mamba3(6, d_state=4, d_head=6, expand=1).double()
    with torch.no_grad():
        layer.dt_bias.fill_(1.0)
        x = torch.randn(1, 4000, 6, dtype=torch.float64)
        exact, _ = layer(x)
        y, _ = layer.float()(x.float())
    assert (y.double() - exact)[:, -500:].abs().max() < 2e-5 * exact.abs().max()


def test_published_initialisation():
    torch.manual_seed(4)
    layer = Mamba3(1024)
    assert (layer.d_state, layer.d_head, layer.n_heads, layer.rank, layer.n_angles) == (128, 64, 32, 1, 32)
    assert layer.in_proj.weight.shape == (2 * 2048 + 2 * 128 + 3 * 32 + 32, 1024)
    dt = nn.functional.softplus(layer.dt_bias)
    assert ((dt > 0.99e-3) & (dt < 1.01e-1)).all()
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.8)
    for parameter in (layer.D, layer.B_bias, layer.C_bias, layer.B_norm.weight, layer.C_norm.weight):
        assert (parameter == 1).all()
    assert layer.B_norm.eps == layer.C_norm.eps == 1e-5
    assert layer.M_x is layer.M_z is layer.M_o is None
    wide = Mamba3(64, rank=4)
    assert (wide.M_x == 0.25).all() and (wide.M_z == 1).all() and (wide.M_o == 0.25).all()
    assert wide.M_x.shape == (4, 2, 64)
    assert wide.initial_state(3).s.shape == layer.initial_state(3).s[:, :2].shape


def test_time_steps_stay_float32():
    layer = Mamba3(4, d_state=4, d_head=4).half()
    assert layer.in_proj.weight.dtype == torch.float16
    assert layer.dt_bias.dtype == layer.D.dtype == torch.float32
    assert layer.transitions(torch.randn(1, 3, 4).half()).dtype == torch.float32


@pytest.mark.parametrize(
    "options",
    [{"d_state": 0}, {"d_state": 5}, {"d_head": 0}, {"expand": 0}, {"rank": 0}, {"chunk_size": 0}, {"rotation": "none"}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        Mamba3(4, **options)
