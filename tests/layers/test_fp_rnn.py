"""Fixed-point RNN: its iteration written out token by token, and the fixed point that it approaches."""

import math

import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.layers.fixed_point_mixers import complement, mixer_size
from statetrack.layers.fixed_point_rnn import FixedPointRNN

MIXERS = [("kronecker", 1), ("householder", 1), ("householder", 3), ("dplr", 2)]


def mixing_matrix(mixer, entries, n, rank):
    """Q, dense."""
    eye = torch.eye(n, dtype=entries.dtype)
    if mixer == "kronecker":
        p = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
        q = n // p
        left, right = entries[: p * p].view(p, p), entries[p * p :].view(q, q)
        bounded = []
        for k in (left, right):
            bound = math.sqrt(k.abs().sum(0).max() * k.abs().sum(1).max())
            bounded.append(k / max(1.0, bound))
        return eye - torch.kron(*bounded)
    vectors, alpha = entries[: rank * n].view(rank, n), 1 / (1 + torch.exp(-entries[rank * n :]))
    vectors = vectors / (vectors.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    q = eye
    for a, u in zip(alpha, vectors, strict=True):
        q = (eye - a * torch.outer(u, u)) @ q if mixer == "householder" else q - a / rank * torch.outer(u, u)
    return q


def reference(layer, x):
    """Outputs and all last iterates of one sequence."""
    n = layer.d_state
    before = torch.zeros(layer.n_iterations, n, dtype=x.dtype)
    outputs = []
    for u in x:
        lam = 1 / (1 + torch.exp(-(layer.decay.weight @ u + layer.decay.bias)))
        v = layer.input.weight @ u
        h, iterates = torch.zeros(n, dtype=x.dtype), []
        for level in range(layer.n_iterations):
            entries = layer.mixing.weight @ u + layer.mixing.bias
            if layer.feedback is not None and level > 0:
                entries = entries + layer.feedback.weight @ before[level - 1]
            q = mixing_matrix(layer.mixer, entries, n, layer.rank)
            h = lam * before[level] + (1 - lam) * (q @ v + h - q @ h)
            iterates.append(h)
        before = torch.stack(iterates)
        outputs.append(layer.out.weight @ h + layer.out.bias)
    return torch.stack(outputs), before


@pytest.mark.parametrize(("mixer", "rank"), MIXERS)
@pytest.mark.parametrize("options", [{}, {"state_dependent": False}, {"n_iterations": 1}])
def test_outputs_follow_the_iteration(mixer, rank, options):
    torch.manual_seed(0)
    layer = FixedPointRNN(5, d_state=6, mixer=mixer, rank=rank, **{"n_iterations": 3, **options}).double()
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    y, state = layer(x)
    with torch.no_grad():
        for row in range(2):
            expected, iterates = reference(layer, x[row])
            torch.testing.assert_close(y[row], expected, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(state.h[row], iterates, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("state_dependent", [True, False])
@pytest.mark.parametrize(("mixer", "rank"), [("kronecker", 1), ("householder", 1), ("dplr", 2)])
def test_many_iterations_reach_the_stated_fixed_point(mixer, rank, state_dependent):
    """The number of iterations may be raised on a built layer; Q reads the fixed point one token earlier."""
    torch.manual_seed(1)
    layer = FixedPointRNN(5, d_state=6, mixer=mixer, rank=rank, n_iterations=2, state_dependent=state_dependent).double()
    layer.n_iterations = 120
    x = torch.randn(1, 8, 5, dtype=torch.float64)
    with torch.no_grad():
        _, state = layer(x)
        h = torch.zeros(6, dtype=torch.float64)
        eye = torch.eye(6, dtype=torch.float64)
        for u in x[0]:
            entries = layer.mixing(u) + (layer.feedback(h) if state_dependent else 0)
            q, lam = mixing_matrix(mixer, entries, 6, rank), layer.decay(u).sigmoid()
            left = eye - torch.diag(1 - lam) @ (eye - q)
            h = torch.linalg.solve(left, lam * h + (1 - lam) * (q @ layer.input(u)))
    torch.testing.assert_close(state.h[0, -1], h, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(state.h[0, -1], state.h[0, -2], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("mixer", "rank"), [("kronecker", 1), ("householder", 1), ("dplr", 3)])
def test_spectrum_of_the_fixed_point(mixer, rank):
    """For a given Q the dense transition turns by less than a quarter and never grows."""
    torch.manual_seed(2)
    n = 6
    eye = torch.eye(n, dtype=torch.float64)
    for _ in range(200):
        lam = torch.rand(n, dtype=torch.float64)
        q = mixing_matrix(mixer, 10 * torch.randn(mixer_size(mixer, n, rank), dtype=torch.float64), n, rank)
        assert torch.linalg.matrix_norm(eye - q, 2) <= 1 + 1e-12
        values = torch.linalg.eigvals(torch.linalg.solve(eye - torch.diag(1 - lam) @ (eye - q), torch.diag(lam)))
        assert (values.real > 0).all()
        assert (values.abs() < 1 + 1e-12).all()


@pytest.mark.parametrize(("mixer", "rank"), MIXERS)
def test_mixers_are_linear_maps(mixer, rank):
    torch.manual_seed(3)
    entries = torch.randn(mixer_size(mixer, 6, rank), dtype=torch.float64)
    dense = complement(mixer, entries.expand(6, -1), torch.eye(6, dtype=torch.float64), rank).mT
    torch.testing.assert_close(dense, torch.eye(6).double() - mixing_matrix(mixer, entries, 6, rank), rtol=1e-10, atol=1e-12)


def test_what_decides_a_transition_stays_float32():
    layer = FixedPointRNN(4, d_state=4).half()
    for linear in (layer.decay, layer.mixing, layer.feedback):
        assert linear.weight.dtype == torch.float32
    assert layer.input.weight.dtype == torch.float16


@pytest.mark.parametrize("options", [{"d_state": 0}, {"n_iterations": 0}, {"rank": 0}, {"mixer": "dense"}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        FixedPointRNN(4, **options)
