"""Smaller states against systems solved by hand, blown-up automata and every word of a length."""

from __future__ import annotations

import itertools

import pytest
import torch

from statetrack.analysis.state_size import (
    System,
    balanced_truncation,
    compress,
    hankel_values,
    measured_error,
    minimise_model,
    reduced_run,
)
from statetrack.analysis.state_size.fixed_layers import systems
from statetrack.errors import InvalidInputError
from statetrack.layers import make_layer
from statetrack.models import ModelConfig, Tagger


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def stable(n=8, m=2, p=2, radius=0.9, dtype=torch.float64):
    a = normal(n, n, dtype=dtype)
    a = radius * a / torch.linalg.eigvals(a).abs().max()
    return System(a, normal(n, m, seed=2, dtype=dtype), normal(p, n, seed=3, dtype=dtype))


def gramian(a, b):
    """``P = A P A^H + B B^H`` by one linear solve."""
    n = len(a)
    kron = torch.eye(n * n, dtype=a.dtype) - torch.kron(a, a.conj())
    return torch.linalg.solve(kron, (b @ b.mH).flatten()).view(n, n)


# -- systems -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_hankel_values_are_roots_of_the_eigenvalues_of_both_gramians(dtype):
    system = stable(dtype=dtype)
    p, q = gramian(system.a, system.b), gramian(system.a.mH, system.c.mH)
    expected = torch.linalg.eigvals(p @ q).real.clamp(min=0).sqrt().sort(descending=True).values
    torch.testing.assert_close(hankel_values(system), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("r", [1, 3, 4, 6, 7])
def test_error_lies_between_the_first_dropped_value_and_the_bound(r):
    system = stable()
    found = balanced_truncation(system, r)
    error = measured_error(system, found.system)
    assert float(found.sigma[r]) * (1 - 1e-9) <= error <= found.bound * (1 + 1e-9)
    assert found.system.radius < 1
    reduced = gramian(found.system.a, found.system.b)
    torch.testing.assert_close(reduced, torch.diag(found.sigma[:r]), rtol=0, atol=float(found.sigma[r]) + found.bound)


def test_all_states_give_the_same_impulses():
    system, kept = stable(), balanced_truncation(stable(), 8).system
    h, g = system.b, kept.b
    for _ in range(30):
        torch.testing.assert_close(system.c @ h, kept.c @ g, rtol=1e-9, atol=1e-10)
        h, g = system.a @ h, kept.a @ g
    with pytest.raises(InvalidInputError, match="inside the unit circle"):
        hankel_values(System(1.01 * torch.eye(2), torch.ones(2, 1), torch.ones(1, 2)))


def test_small_values_are_found_below_the_root_of_the_precision():
    """Two decoupled states, one of which hardly carries anything; Gramians would lose it."""
    a = torch.diag(torch.tensor([0.5, 0.25], dtype=torch.float64))
    b = torch.tensor([[1.0], [1e-6]], dtype=torch.float64)
    c = torch.tensor([[1.0, 0.0], [0.0, 1e-6]], dtype=torch.float64)
    b2 = torch.diag(b.squeeze(1))
    torch.testing.assert_close(
        hankel_values(System(a, b2, c)), torch.tensor([4 / 3, 1e-12 / (1 - 1 / 16)], dtype=torch.float64), rtol=1e-9, atol=0
    )


# -- time-invariant layers -----------------------------------------------------------------------------------------------------

FIXED = {
    "lru": {"glu": False},
    "s5": {"glu": False},
    "s5 bilinear": {"glu": False, "discretization": "bilinear", "clip": True},
    "s4d": {"glu": False},
    "linoss": {"glu": False},
}


def fixed(name, **options):
    torch.manual_seed(0)
    return make_layer(name.split()[0], 3, **{"d_state": 6, **FIXED[name], **options}).double()


@pytest.mark.parametrize("name", FIXED)
def test_systems_give_the_outputs_of_their_layers(name):
    layer, x = fixed(name), normal(1, 12, 3)
    found = systems(layer)
    h = [torch.zeros(len(system.a), dtype=torch.complex128) for system in found]
    for t in range(12):
        u = x[0, t].to(torch.complex128)
        if len(found) == 1:
            h = [found[0].a @ h[0] + found[0].b @ u]
            y = (found[0].c @ h[0]).real
        else:
            h = [s.a @ g + s.b[:, 0] * u[channel] for channel, (s, g) in enumerate(zip(found, h, strict=True))]
            y = torch.stack([(s.c[0] @ g).real for s, g in zip(found, h, strict=True)])
        skip = layer.D if hasattr(layer, "D") else layer.readout.skip
        torch.testing.assert_close(layer(x)[0][0, t], y + skip * x[0, t], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", FIXED)
def test_truncated_layers_keep_bound_and_form(name):
    layer, x = fixed(name, glu=True), normal(2, 20, 3)
    found = compress(layer, 4, x=x)
    assert type(found.layer) is type(layer) or (name == "linoss" and type(found.layer).__name__ == "LRU")
    assert found.layer.d_state == found.after == 4
    assert found.before == found.sigma.shape[1]
    assert float(found.sigma[:, 4].max()) * (1 - 1e-6) <= found.error <= found.bound * (1 + 1e-9)
    assert found.output_error == pytest.approx(float((found.layer(x)[0] - layer(x)[0]).detach().abs().max()))
    whole = compress(layer, found.before, x=x)
    assert whole.exact
    assert whole.output_error < 1e-9
    assert all(p.requires_grad for p in found.layer.parameters())
    by_tolerance = compress(layer, tolerance=0.2)
    assert by_tolerance.bound <= 0.2 * float(by_tolerance.sigma.max())


def test_a_layer_with_copies_of_its_modes_loses_them():
    layer, x = fixed("lru"), normal(2, 30, 3)
    with torch.no_grad():
        for name in ("nu_log", "theta_log", "gamma_log"):
            parameter = getattr(layer, name)
            parameter[3:] = parameter[:3]
        both = layer.input.weight.view(2, 6, 3)
        both[:, 3:] = both[:, :3]
    found = compress(layer, tolerance=1e-9, x=x)
    assert found.after == 3
    assert found.output_error < 1e-9
    turning = fixed("linoss", scheme="imex")
    with pytest.raises(InvalidInputError, match="inside the unit circle"):
        compress(turning, 2)


# -- PD layers -----------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "automaton": {"d_field": "real", "modulus": "unit", "additive_input": False},
    "decaying": {"d_field": "complex", "d_generator": "affine"},
    "mlp": {"d_field": "complex", "d_generator": "mlp", "initial_state": "learned"},
    "read by an mlp": {"d_field": "real", "d_generator": "decay_phase", "readout": "mlp", "additive_input": False},
}


def blown_up(options, q=(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3), heads=2, k=3):
    """A layer of 12 states in which those of one class of ``q`` cannot be told apart, and random layers of input and start."""
    n, m = len(q), max(q) + 1
    torch.manual_seed(0)
    layer = make_layer("flash-pd-ssm", 4, d_state=n, n_heads=heads, dictionary_size=k, **options).double()
    generator = torch.Generator().manual_seed(1)
    cls = torch.tensor(q)
    with torch.no_grad():
        for head in range(heads):
            small = torch.randint(m, (k, m), generator=generator)
            for letter in range(k):
                for j in range(n):
                    members = (cls == small[letter, cls[j]]).nonzero().flatten()
                    goal = members[torch.randint(len(members), (1,), generator=generator)]
                    layer.scores[head, letter, :, j] = 0.1 * torch.rand(n, generator=generator, dtype=torch.float64)
                    layer.scores[head, letter, goal, j] = 1.0
        parts = 2 if layer.is_complex else 1
        reads = layer.readout.out if not isinstance(layer.readout.out, torch.nn.Sequential) else layer.readout.out[0]
        weight = reads.weight.view(-1, parts, heads, n)
        weight.copy_(weight[..., cls])
        for network, width in ((layer.diagonal.magnitude, 1), (layer.diagonal.phase, layer.diagonal.levels or 1)):
            if network is not None:
                last = network[-1] if isinstance(network, torch.nn.Sequential) else network
                rows = last.weight.view(heads, n, width, -1)
                rows.copy_(rows[:, cls])
                bias = last.bias.view(heads, n, width)
                bias.copy_(bias[:, cls])
        if hasattr(layer.diagonal, "a_log"):
            rates = layer.diagonal.a_log.view(heads, n)
            rates.copy_(rates[:, cls])
    return layer


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_states_that_nothing_tells_apart_are_merged(options):
    layer, x = blown_up(options), normal(2, 40, 4)
    found = compress(layer, x=x) if options.get("additive_input", True) is False else compress(layer)
    assert found.after <= 4
    assert found.exact
    with torch.no_grad():
        difference = (layer(x)[0] - found.layer(x)[0]).abs().max()
    assert difference < 1e-13
    found.layer(x)[0].sum().backward()
    assert found.layer.scores.grad.abs().sum() > 0


def test_a_tolerance_merges_what_differs_a_little():
    layer, x = blown_up(OPTIONS["automaton"], heads=1), normal(2, 40, 4)
    with torch.no_grad():
        layer.readout.out.weight.add_(1e-6 * normal(*layer.readout.out.weight.shape))
    exact, near = compress(layer, x=x), compress(layer, tolerance=1e-5, x=x)
    assert near.after < exact.after
    assert not near.exact
    assert 0 < near.output_error < 1e-4
    assert exact.output_error < 1e-14


def test_states_of_mixtures_are_dropped_for_the_inputs_given():
    torch.manual_seed(3)
    layer = make_layer("pd-ssm", 4, d_state=24, dictionary_size=2, additive_input=False).double()
    words = normal(3, 4)[torch.randint(3, (2, 25), generator=torch.Generator().manual_seed(2))]
    found = compress(layer, x=words)
    assert found.after < 24
    assert found.output_error < 1e-13
    with pytest.raises(InvalidInputError, match="give inputs x"):
        compress(layer)
    with pytest.raises(InvalidInputError, match="orientation='row'"):
        compress(make_layer("flash-pd-ssm", 4, d_state=4, orientation="row"))
    with pytest.raises(InvalidInputError, match="gated"):
        compress(make_layer("flash-pd-ssm", 4, d_state=4, readout="gated"))


# -- answers -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_minimised_models_answer_every_word_alike(seed):
    torch.manual_seed(seed)
    layer = {"d_state": 10, "dictionary_size": 2, **OPTIONS["automaton"]}
    model = Tagger("flash-pd-ssm", 2, 2, ModelConfig(d_model=4, layer=layer)).double().eval()
    small = minimise_model(model)
    words = torch.tensor(list(itertools.product(range(2), repeat=9)))
    with torch.no_grad():
        given, kept = (each(words)[0].argmax(-1) for each in (model, small))
        assert torch.equal(given, kept)
        u = model.embedding(torch.arange(2))
        maps = model.layers[0].transitions(u.unsqueeze(1)).index[:, 0, 0].tolist()
        shape = (2, 10, 4)
        y = model.layers[0].readout(
            torch.eye(10, dtype=torch.float64).expand(2, 10, 10).unsqueeze(2), u.unsqueeze(1).expand(shape)
        )
        landed = model.head(model.blocks[0].norms[0](y)).argmax(-1).tolist()  # by token and state

    def behaviour(state):
        """What is answered on landing there by either token, and along every word from there."""
        seen = [landed[0][state], landed[1][state]]
        for word in itertools.product(range(2), repeat=6):
            at = state
            for letter in word:
                at = maps[letter][at]
                seen.append(landed[letter][at])
        return tuple(seen)

    reached = {0}
    while (grown := reached | {row[i] for row in maps for i in reached}) != reached:
        reached = grown
    assert small.layers[0].d_state == len({behaviour(state) for state in reached})


def test_a_blown_up_group_shrinks_to_its_size():
    """Addition modulo 3 in 12 states: every class has four, with readouts of their own that favour the same class."""
    n, q = 12, torch.arange(12) % 3
    layer = {"d_state": n, "dictionary_size": 2, "skip": False, **OPTIONS["automaton"]}
    model = Tagger("flash-pd-ssm", 2, 3, ModelConfig(d_model=3, norm="none", layer=layer)).double().eval()
    cell = model.layers[0]
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(3)[:2])
        cell.router.weight.copy_(torch.eye(3)[:2])
        for letter in range(2):
            cell.scores[0, letter] = torch.nn.functional.one_hot((torch.arange(n) + 3 + letter) % n, n).mT
        cell.readout.out.weight.copy_(torch.eye(3, dtype=torch.float64)[q].mT * (1 + torch.rand(n)))
        cell.readout.out.bias.zero_()
        model.head.weight.copy_(torch.eye(3))
        model.head.bias.zero_()
    small = minimise_model(model)
    assert small.layers[0].d_state == 3
    words = torch.randint(2, (20, 50), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(small(words)[0].argmax(-1), words.cumsum(1) % 3)
        assert torch.equal(model(words)[0].argmax(-1), words.cumsum(1) % 3)
    with pytest.raises(InvalidInputError, match="additive input"):
        minimise_model(Tagger("flash-pd-ssm", 2, 3, ModelConfig(d_model=3, layer={"d_state": 3})))
    with pytest.raises(InvalidInputError, match="one Flash PD-SSM block"):
        minimise_model(Tagger("mamba", 2, 3, ModelConfig(d_model=3)))


# -- along a run ---------------------------------------------------------------------------------------------------------------


def run_outputs(a, b, c, u):
    """The recurrence, token by token."""
    h, found = torch.zeros(a.shape[-1], dtype=a.dtype), []
    for t in range(len(a)):
        h = a[t] @ h + b[t] @ u[t].to(a.dtype)
        found.append(c[t].to(a.dtype) @ h)
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_system_of_order_four_in_seven_coordinates_runs_in_four(dtype):
    length = 25
    turn = torch.linalg.qr(normal(7, 7, seed=9, dtype=dtype)).Q
    a, b, c = (torch.zeros(length, *shape, dtype=dtype) for shape in ((7, 7), (7, 2), (3, 7)))
    a[:, :4, :4], b[:, :4], c[..., :4] = (
        normal(length, 4, 4, dtype=dtype) / 2,
        normal(length, 4, 2, seed=2, dtype=dtype),
        normal(length, 3, 4, seed=3, dtype=dtype),
    )
    a[:, 4:, 4:] = 0.3 * torch.eye(3, dtype=dtype)  # never written nor read
    a, b, c = turn @ a @ turn.mH, turn @ b, c @ turn.mH
    found, u = reduced_run(a, b, c), normal(length, 2, seed=5)
    assert max(found.sizes) == 4
    assert found.sizes[2:-2] == [4] * (length - 5)
    expected = run_outputs(a, b, c, u)
    assert (found.outputs(u) - expected).abs().max() < 1e-11 * expected.abs().max()


@pytest.mark.parametrize("name", ["mamba", "flash-pd-ssm", "deltanet"])
def test_runs_of_layers_are_repeated_by_their_rank(name):
    options = {
        "mamba": {"d_state": 6, "d_conv": 1},
        "flash-pd-ssm": {"d_state": 6, "dictionary_size": 2},
        "deltanet": {"n_heads": 1},
    }
    torch.manual_seed(0)
    layer, x = make_layer(name, 4, **options[name]).double(), normal(1, 20, 4)
    a = layer.transitions(x).to_dense()[0, :, 0].detach()
    b, c, u = normal(20, a.shape[-1], 1), normal(20, 1, a.shape[-1], seed=2), normal(20, 1, seed=3)
    exact, fewer = reduced_run(a, b, c), reduced_run(a, b, c, most=2)
    expected = run_outputs(a, b.to(a.dtype), c, u)
    whole = float((exact.outputs(u) - expected).abs().max())
    assert whole < 1e-9 * float(expected.abs().max())
    assert max(fewer.sizes) <= 2
    assert float((fewer.outputs(u) - expected).abs().max()) >= whole
    with pytest.raises(InvalidInputError, match="most"):
        reduced_run(a, b, c, most=0)


@pytest.mark.parametrize("wrong", [0, 17, 7.5, True, "8"])
def test_sizes_that_no_state_has(wrong):
    with pytest.raises(InvalidInputError, match="d_state must"):
        compress(make_layer("lru", 4, d_state=16), wrong)
