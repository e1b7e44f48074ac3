"""Complex KDA against its equations, and exact group words."""

import itertools
import math

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.complex_kda import ComplexKDA

OPTIONS = [
    {},
    {"n_heads": 1, "d_head": 4, "expand_v": 2},
    {"short_conv": False, "output_gate": False},
    {"doubled_beta": False},
    {"additive_input": False},
]


def matrices(layer, equations, scale=2):
    def rule(u, h, k, v):
        gate, floor = layer.decay, math.exp(-5)
        logits = torch.exp(gate.A_log[h]) * (equations.two_maps(gate.project, u).view(gate.dt_bias.shape) + gate.dt_bias)[h]
        r = 2 / (1 + torch.exp(-logits)) - 1
        a = torch.diag(torch.where(r < 0, -floor, floor) + (1 - floor) * r)
        beta = scale / (1 + torch.exp(-(layer.strength.weight[h] @ u + layer.strength.bias[h])))
        return (torch.eye(len(k), dtype=k.dtype) - beta * torch.outer(k, k)) @ a, beta * torch.outer(k, v)

    return rule


@pytest.mark.parametrize("options", OPTIONS)
def test_outputs_follow_the_equations(options, delta_equations):
    torch.manual_seed(0)
    layer = ComplexKDA(5, **{"n_heads": 2, **options}).double()
    x = 2 * torch.randn(2, 90, 5, dtype=torch.float64)
    scale = 1 if options.get("doubled_beta") is False else 2
    with torch.no_grad():
        layer.decay.project[1].weight.mul_(30)
        layer.decay.A_log.normal_()
        y, state = layer(x)
        for row in range(2):
            rule = matrices(layer, delta_equations, scale)
            expected, states = delta_equations.run(layer, x[row], rule, activate_keys=False)
            torch.testing.assert_close(y[row], expected, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(state.h[row], states[-1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("doubled", [False, True])
def test_rotations_need_a_doubled_beta(doubled):
    """Norm at most 1; at most one complex pair, and none without the doubled beta."""
    torch.manual_seed(1)
    layer = ComplexKDA(12, n_heads=2, doubled_beta=doubled).double()
    with torch.no_grad():
        layer.decay.project[1].weight.mul_(30)
        layer.strength.weight.mul_(10)
    stated = layer.transitions(3 * torch.randn(4, 100, 12, dtype=torch.float64))
    pairs = (stated.eigenvalues().imag > 1e-6).sum(-1)
    assert pairs.max() == (1 if doubled else 0)
    assert torch.linalg.matrix_norm(stated.to_dense(), ord=2).max() < 1
    # The decay alone has both signs.
    assert 0.3 < (stated.diagonal > 0).double().mean() < 0.7


def test_published_initialisation():
    torch.manual_seed(2)
    layer = ComplexKDA(64, n_heads=8)
    bias = layer.decay.dt_bias
    assert bias.shape == (8, 8)
    assert bias.abs().max() <= 1.5
    assert bias.std().item() == pytest.approx(1.5 / math.sqrt(3), rel=0.2)
    assert (layer.decay.A_log == 0).all()
    assert (layer.strength.bias == 0.5).all()
    down, up = layer.decay.project
    assert up.weight.abs().max() <= 0.1 / math.sqrt(8)
    assert down.weight.abs().max() > 0.9 / math.sqrt(64)


# Exact weights ------------------------------------------------------------------------------------------------------------------


def factors(matrix):
    """``(k, a)`` with ``matrix = (I - 2 k k^T) Diag(a)``; k = 0 where ``matrix`` is diagonal already."""
    n = len(matrix)
    for a in itertools.product((1.0, -1.0), repeat=n):
        twice = np.eye(n) - matrix * np.array(a)  # 2 k k^T, if this is the right sign pattern
        column = twice[:, twice.diagonal().argmax()]
        length = np.linalg.norm(column)
        k = column / length if length > 1e-9 else np.zeros(n)
        if np.allclose(twice, 2 * np.outer(k, k), atol=1e-9):
            return k, np.array(a)
    raise AssertionError("not one reflection away from a diagonal of signs")


def tracker(group):
    """One layer, as many heads as rows, that turns its state by one of ``group (n, K, K)`` per letter and puts out all of it.

    Letters: the K that write the start ``c I``, then one for each matrix. A head reads one row; the norm takes c out.
    """
    n, size, _ = group.shape
    letters = size + n
    layer = ComplexKDA(letters + size * size, n_heads=size, d_head=size, short_conv=False, output_gate=False).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        k, a = np.zeros((letters, size)), np.ones((letters, size))
        k[:size] = np.eye(size)
        for i, matrix in enumerate(group):
            k[size + i], a[size + i] = factors(matrix)
        everywhere = torch.eye(size, dtype=torch.float64).repeat(size, 1)
        heads = layer.heads
        heads.k_proj.weight[:, :letters] = 1000 * everywhere @ torch.as_tensor(k).mT
        heads.q_proj.weight[:, :letters] = 1000 * torch.eye(size).flatten().unsqueeze(1)
        heads.v_proj.weight[:, :size] = 1000 * everywhere
        layer.decay.project[0].weight[:, :letters] = 80 * torch.as_tensor(a).mT
        layer.decay.project[1].weight.copy_(everywhere)
        layer.strength.weight[:, :letters] = torch.where(torch.as_tensor(k).any(1), 80.0, -800.0)
        layer.readout.norm.weight.fill_(size**-0.5)
        layer.readout.out.weight[letters:].copy_(torch.eye(size * size))
    return layer


def followed(group, word):
    """The matrices ``(L, K, K)`` that the layer puts out along a word."""
    layer, size = tracker(group), group.shape[1]
    line = torch.cat([torch.arange(size), size + torch.as_tensor(word)])
    with torch.no_grad():
        y, _ = layer(torch.nn.functional.one_hot(line, layer.d_model).double().unsqueeze(0))
    return y[0, size:, -size * size :].view(-1, size, size).numpy()


def nearest(matrix, group):
    return np.abs(group - matrix).sum((-1, -2)).argmin(-1)


def dihedral(n):
    angles = 2 * np.pi * np.arange(n) / n
    turns = np.array([[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles])
    return np.concatenate([turns, turns @ np.diag([1.0, -1.0])])


def rotations_of_the_cube():
    """S_4 as rotations, in a frame in which every one of them is one reflection away from signs."""
    found = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            matrix = np.eye(3)[list(order)] * np.array(signs)
            if np.linalg.det(matrix) > 0:
                found.append(matrix)
    frame = np.array([[0, 1, -1], [0, 1, 1], [math.sqrt(2), 0, 0]]) / math.sqrt(2)
    return frame @ np.array(found) @ frame.T


@pytest.mark.parametrize(("group", "length"), [(dihedral(7), 3000), (rotations_of_the_cube(), 3000)], ids=["D7", "S4"])
def test_one_layer_tracks_a_finite_group_exactly(group, length):
    """No wrong element in thousands of random letters."""
    table = np.array([[nearest(a @ b, group) for b in group] for a in group])
    word = np.random.default_rng(3).integers(len(group), size=length)
    seen = followed(group, word)
    element, worst = int(nearest(np.eye(group.shape[1]), group)), 0.0
    for t, letter in enumerate(word):
        element = table[letter, element]
        worst = max(worst, np.abs(seen[t] - group[element]).max())
    assert worst < 1e-6


def times(a, b):
    """Products of quaternions ``(..., 4)``."""
    real = a[..., :1] * b[..., :1] - (a[..., 1:] * b[..., 1:]).sum(-1, keepdims=True)
    rest = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])
    return np.concatenate([real, rest], -1)


def conjugate(a):
    return a * np.array([1, -1, -1, -1])


def icosians():
    """One of each pair ``{q, -q}`` of the 120 unit quaternions over the rotations of the icosahedron: A_5."""
    golden = (1 + math.sqrt(5)) / 2
    found = [*np.eye(4)] + [np.array(s) / 2 for s in itertools.product((1, -1), repeat=4)]
    even = [list(o) for o in itertools.permutations(range(4)) if np.linalg.det(np.eye(4)[list(o)]) > 0]
    patterns = [np.array([golden, 1, 1 / golden, 0]) * np.array([*s, 1]) / 2 for s in itertools.product((1, -1), repeat=3)]
    found += [pattern[order] for order in even for pattern in patterns]
    chosen = []
    for q in found:
        if not any(abs(abs(q @ p) - 1) < 1e-9 for p in chosen):
            chosen.append(q)
    return np.array(chosen)


def test_one_layer_tracks_a5_by_quaternions():
    """The letter q turns the state by ``x -> q x q``; from all of the state the product of the letters follows up to sign."""
    lifts = icosians()
    assert len(lifts) == 60
    basis = np.eye(4)
    group = np.stack([times(times(lifts, e), lifts) for e in basis], axis=-1)
    word = np.random.default_rng(4).integers(60, size=1500)
    seen = followed(group, word)
    product = basis[0]
    conjugations = np.stack([times(times(lifts, e), conjugate(lifts)) for e in basis[1:]], axis=-1)
    for t, letter in enumerate(word):
        product = times(product, lifts[letter])
        total = seen[t, :, 0]
        turned = np.stack([times(seen[t, :, j], conjugate(total)) for j in (1, 2, 3)], axis=-1)
        left = lifts[np.abs(conjugations - turned).sum((-1, -2)).argmin()]
        right = times(conjugate(left), total)
        assert np.abs(lifts @ right).argmax() == np.abs(lifts @ product).argmax()
        assert np.abs(lifts @ right).max() > 1 - 1e-6


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_head": 0}, {"expand_v": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        ComplexKDA(4, **options)
