"""Exact weights track their automata: outputs against a run of the transition table, symbol by symbol."""

import itertools
import math

import numpy as np
import pytest
import torch

from statetrack.automata import Automaton, alphabet, group, group_name, random_automaton, word_automaton
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.models import Tagger
from statetrack.theory import depth
from statetrack.theory.construct import construct, near_exact

UNIVERSAL = ["flash-pd-ssm", "pd-ssm", "rnn", "sd-ssm", "slice"]
COUNTING = ["aussm", "complex-diagonal", "simple-aussm"]
RESET = ["mamba", "mamba2"]


def tracked(layer, automaton, length=600, seed=0, block=20_000):
    """The model, and where in a random word it first errs (None if nowhere)."""
    model = construct(layer, automaton)
    return model, first_error(model, automaton, length, seed, block)


def first_error(model, automaton, length, seed=0, block=20_000):
    rng = np.random.default_rng(seed)
    q, states = automaton.start, None
    for begin in range(0, length, block):
        word = rng.integers(automaton.n_symbols, size=min(block, length - begin))
        wanted = []
        for symbol in word:
            q = int(automaton.transitions[q, symbol])
            wanted.append(int(automaton.outputs[q]))
        with torch.no_grad():
            scores, states = model(torch.as_tensor(word)[None], states)
        wrong = np.flatnonzero(scores[0].argmax(-1).numpy() != np.array(wanted))
        if wrong.size:
            return begin + int(wrong[0])
    return None


def words(name, spec="all"):
    if name == "flip-flop":
        return flip_flop(int(spec))
    return word_automaton(group(name), alphabet(group(name), spec))


def flip_flop(n, start=0):
    """Letter 0 keeps the state, letter i + 1 sets it to i."""
    return Automaton(np.stack([np.arange(n), *(np.full(n, i) for i in range(n))], axis=1), np.arange(n), start=start)


def some_automaton(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    return random_automaton(n, int(rng.integers(1, 5)), rng, n_outputs=int(rng.integers(1, n + 1)))


@pytest.mark.parametrize("layer", UNIVERSAL)
def test_any_automaton_takes_one_layer(layer):
    for seed in range(12):
        automaton = some_automaton(seed)
        model, error = tracked(layer, automaton, 300, seed)
        assert error is None, (seed, automaton)
        assert model.config.n_layers == 1


@pytest.mark.parametrize("layer", COUNTING)
@pytest.mark.parametrize("name", ["C1", "C2", "C6", "C2xC4", "S3", "Q8", "A4", "S4"])
def test_solvable_groups_take_as_many_layers_as_the_theorem_says(layer, name):
    model, error = tracked(layer, words(name))
    assert error is None
    assert model.config.n_layers == max(depth(layer, words(name)).layers, 1)


@pytest.mark.parametrize("name", ["C2", "C2xC2xC2", "C4", "C8", "D4", "Q8", "C2xD4"])
def test_groups_of_order_a_power_of_two_by_signs(name):
    model, error = tracked("negative-mamba", words(name))
    assert error is None
    assert model.config.n_layers == depth("negative-mamba", words(name)).layers


@pytest.mark.parametrize("layer", RESET)
@pytest.mark.parametrize(("n", "start"), [(2, 0), (2, 1), (5, 3)])
def test_flip_flops(layer, n, start):
    automaton = flip_flop(n, start)
    assert tracked(layer, automaton)[1] is None
    keeps = torch.zeros(1, 50, dtype=torch.long)
    scores, _ = construct(layer, automaton)(keeps)
    assert (scores.argmax(-1) == start).all()


@pytest.mark.parametrize(
    ("layer", "name", "spec"),
    [
        ("deltanet", "C2", "all"),
        ("deltanet", "S3", "swaps"),
        ("deltanet", "S5", "swaps"),
        ("deltaproduct", "C5", "all"),
        ("deltaproduct", "D4", "all"),
        ("deltaproduct", "S4", "generators"),
        ("deltaproduct", "A5", "generators"),
        ("deltaproduct", "S5", "swaps"),
        ("deltaproduct", "Q8", "generators"),
        ("complex-kda", "C2", "all"),
        ("complex-kda", "C7", "all"),
        ("complex-kda", "D5", "all"),
        ("complex-kda", "A4", "all"),
        ("complex-kda", "S4", "all"),
        ("slice", "S5", "generators"),
        ("slice", "A5", "all"),
    ],
)
def test_groups_by_matrices(layer, name, spec):
    model, error = tracked(layer, words(name, spec))
    assert error is None
    assert model.config.n_layers == 1


def test_spaces_and_factors_are_as_small_as_published():
    """Reflections per token: 1 for a polygon's mirrors, 2 for a polygon and a solid, n - 1 for S_n; A5 in S5's five points."""
    factors = {
        name: construct("deltaproduct", words(name, spec)).config.layer["n_householder"]
        for name, spec in [("D5", "all"), ("S4", "generators"), ("A5", "generators"), ("S5", "generators")]
    }
    assert factors == {"D5": 2, "S4": 2, "A5": 2, "S5": 4}
    assert construct("slice", words("S5", "generators")).config.layer["block_size"] == 5
    assert construct("slice", words("A5")).config.layer["block_size"] == 5


def test_outputs_that_merge_elements():
    """Classes that no linear map of the matrix tells apart go through gates."""
    g = group("D6")
    table = word_automaton(g, alphabet(g, "generators")).transitions
    outputs = np.random.default_rng(3).integers(3, size=g.order)
    automaton = Automaton(table, outputs)
    for layer in (*COUNTING, "complex-kda", "deltaproduct", "slice", "rnn"):
        model, error = tracked(layer, automaton, 400)
        assert error is None, layer
        assert model.n_classes == 3


def test_states_that_a_group_moves():
    """Five points moved by S_5, started away from 0."""
    shift, swap = [1, 2, 3, 4, 0], [1, 0, 2, 3, 4]
    automaton = Automaton(np.array([shift, swap]).T, [0, 0, 1, 2, 1], start=3)
    for layer in ("deltaproduct", "slice", "sd-ssm"):
        assert tracked(layer, automaton)[1] is None, layer
    points = Automaton(np.array([[1, 2, 3, 0], [1, 0, 3, 2], [0, 2, 1, 3]]).T, range(4), start=2)  # S_4
    for layer in (*COUNTING, "complex-kda"):
        assert tracked(layer, points)[1] is None, layer


def test_what_no_depth_can_do_is_refused_with_the_reason():
    with pytest.raises(InvalidInputError, match="not a solvable group"):
        construct("complex-diagonal", words("A5", "generators"))
    with pytest.raises(InvalidInputError, match="not a 2-group"):
        construct("negative-mamba", words("C3"))
    with pytest.raises(InvalidInputError, match="No number of mamba layers"):
        construct("mamba", words("C2"))
    with pytest.raises(InvalidInputError, match="no construction for lstm"):
        construct("lstm", words("C2"))
    with pytest.raises(InvalidInputError, match="merges states"):
        construct("complex-diagonal", flip_flop(3))
    with pytest.raises(InvalidInputError, match="deltaproduct makes several"):
        construct("deltanet", words("S3"))
    with pytest.raises(InvalidInputError, match="keep the state or set it"):
        construct("mamba", Automaton([[0, 1], [0, 2], [2, 2]], range(3)))
    with pytest.raises(UnknownNameError):
        construct("mambo", words("C2"))


def test_options():
    model = construct("flash-pd-ssm", words("S3"), backend="reference")
    assert model.first.backend == "reference"
    with pytest.raises(InvalidInputError, match="d_state=6"):
        construct("flash-pd-ssm", words("S3"), d_state=7)
    with pytest.raises(InvalidInputError, match="default of temperature"):
        construct("flash-pd-ssm", words("S3"), temperature=0.5)
    with pytest.raises(InvalidInputError, match="no option 'sate'"):
        construct("flash-pd-ssm", words("S3"), sate=7)


@pytest.mark.parametrize("layer", [*UNIVERSAL, *COUNTING, "complex-kda", "deltaproduct"])
def test_weights_load_into_a_tagger_made_from_the_configuration(layer):
    automaton = words("S3")
    model = construct(layer, automaton)
    other = Tagger(layer, automaton.n_symbols, automaton.n_outputs, model.config)
    other.load_state_dict(model.state_dict())
    tokens = torch.randint(6, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(other(tokens)[0], model(tokens)[0], rtol=0, atol=0)
    assert model.fresh().state_dict().keys() == model.state_dict().keys()


def test_noise_is_relative_to_each_parameter():
    model = construct("complex-diagonal", words("S3"))
    generator = torch.Generator().manual_seed(5)
    moved = near_exact(model, 0.01, generator)
    for (name, before), after in zip(model.named_parameters(), moved.parameters(), strict=True):
        gap, entries = (after - before).detach(), before.detach()[before.detach() != 0]
        size = entries.square().mean().sqrt() if entries.numel() else torch.tensor(0.0)
        assert gap.square().mean().sqrt() == pytest.approx(0.01 * size.item(), rel=0.5), name
    same = near_exact(model, 0.01, torch.Generator().manual_seed(5))
    assert all(torch.equal(a, b) for a, b in zip(same.parameters(), moved.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(near_exact(model, 0).parameters(), model.parameters(), strict=True))
    with pytest.raises(InvalidInputError, match="scale"):
        near_exact(model, -1.0)


@pytest.mark.parametrize("layer", ["flash-pd-ssm", "complex-diagonal", "simple-aussm", "rnn", "slice"])
def test_a_little_noise_leaves_short_words_right(layer):
    automaton = words("S3")
    assert first_error(near_exact(construct(layer, automaton), 1e-4), automaton, 40) is None


@pytest.mark.parametrize("layer", ["complex-diagonal", "simple-aussm", "aussm", "complex-kda", "deltaproduct", "slice"])
def test_double_precision_and_steps_agree(layer):
    automaton = words("S3")
    model = construct(layer, automaton).double()
    states, q = model.initial_state(1), automaton.start
    for symbol in np.random.default_rng(1).integers(6, size=30):
        with torch.no_grad():
            scores, states = model.step(torch.tensor([symbol]), states)
        q = automaton.transitions[q, symbol]
        assert scores.argmax().item() == q


@pytest.mark.parametrize("layer", [*UNIVERSAL, *COUNTING, "complex-kda", "deltaproduct"])
def test_exact_weights_can_be_trained_from(layer):
    """Gradients are finite, and some parameter of the layers gets one."""
    automaton = words("S3")
    model = near_exact(construct(layer, automaton), 0.01)
    tokens = torch.randint(6, (4, 12), generator=torch.Generator().manual_seed(1))
    targets = torch.as_tensor(automaton.output(tokens.numpy()))
    torch.nn.functional.cross_entropy(model(tokens)[0].flatten(0, 1), targets.flatten()).backward()
    grads = [p.grad for p in model.blocks.parameters() if p.grad is not None]
    assert all(g.isfinite().all() for g in grads)
    assert any(g.abs().max() > 0 for g in grads)


# Full sweeps --------------------------------------------------------------------------------------------------------------------

LONG = [
    ("flash-pd-ssm", "S5", "generators"),
    ("pd-ssm", "S5", "generators"),
    ("sd-ssm", "A4", "all"),
    ("slice", "A5", "all"),
    ("complex-diagonal", "C24", "all"),
    ("complex-diagonal", "S4", "all"),
    ("simple-aussm", "S4", "all"),
    ("aussm", "S3", "all"),
    ("negative-mamba", "Q8", "all"),
    ("deltanet", "S3", "swaps"),
    ("deltaproduct", "S5", "generators"),
    ("deltaproduct", "D7", "all"),
    ("complex-kda", "D7", "all"),
    ("complex-kda", "S4", "all"),
    ("mamba", "flip-flop", "5"),
    ("mamba2", "flip-flop", "5"),
    ("rnn", "S3", "all"),
]


@pytest.mark.parametrize(("layer", "name", "spec"), LONG)
def test_five_thousand_steps(layer, name, spec):
    assert tracked(layer, words(name, spec), 5000)[1] is None


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("layer", "name", "spec"), LONG)
def test_a_million_steps(layer, name, spec):
    assert tracked(layer, words(name, spec), 1_000_000)[1] is None


def named_groups(most):
    """One name for every group of an order up to ``most`` that the library can name."""
    single = [f"C{n}" for n in range(1, most + 1)] + [f"D{n}" for n in range(3, most // 2 + 1)] + ["S4", "A4", "Q8", "F20"]
    found = {}
    for k in range(1, int(math.log2(most)) + 1):
        for names in itertools.combinations_with_replacement(single, k):
            if k == 1 or (math.prod(group(n).order for n in names) <= most and "C1" not in names):
                found.setdefault(group_name(group("x".join(names))), "x".join(names))
    return list(found.values())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_groups_up_to_order_24_and_a5_and_s5():
    names = named_groups(24)
    assert len(names) > 40
    for name in [*names, "A5", "S5"]:
        automaton = words(name, "generators")
        for layer in [*UNIVERSAL, *COUNTING, "negative-mamba", "deltaproduct", "complex-kda"]:
            if layer == "rnn" and name == "S5":
                continue
            if depth(layer, automaton).kind == "never":
                with pytest.raises(InvalidInputError):
                    construct(layer, automaton)
                continue
            if layer == "complex-kda" and group_name(group(name)) not in known_to_complex_kda(name):
                continue
            model, error = tracked(layer, automaton, 3000)
            assert error is None, (layer, name)
            if layer in COUNTING:
                assert model.config.n_layers == max(depth(layer, automaton).layers, 1), (layer, name)


def known_to_complex_kda(name):
    g = group(name)
    plane = (g.element_orders == g.order).any() or any(
        g.order == 2 * n and group_name(g) == group_name(group(d)) for n, d in dihedral()
    )
    return {group_name(g)} if plane or name in ("A4", "S4", "A5") else set()


def dihedral():
    return [(2, "C2xC2")] + [(n, f"D{n}") for n in range(3, 13)]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("spec", "length"), [("generators", 20_000), ("all", 5000)])
def test_complex_kda_tracks_a5_by_quaternions(spec, length):
    assert tracked("complex-kda", words("A5", spec), length, block=1000)[1] is None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("layer", UNIVERSAL)
def test_two_hundred_random_automata(layer):
    for seed in range(200):
        assert tracked(layer, some_automaton(1000 + seed), 2000, seed)[1] is None, seed
