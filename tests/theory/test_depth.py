"""Depths against the published table, and the witnesses against the automata they speak of."""

from __future__ import annotations

import json

import numpy as np
import pytest

from statetrack.automata import (
    Automaton,
    alphabet,
    derived_series,
    from_regex,
    group,
    product,
    random_automaton,
    random_permutation_automaton,
    word_automaton,
)
from statetrack.errors import UnknownNameError
from statetrack.layers import layers
from statetrack.tasks import make_task
from statetrack.theory import Cascade, InnerGroup, PeriodicWord, Representation, Series, Size, depth, depths, facts_of
from statetrack.theory.rules import RULES

FLIP_FLOP = Automaton([[0, 0, 1], [1, 0, 1]], [0, 1])
PARITY = Automaton([[0, 1], [1, 0]], [0, 1])
RESET = Automaton([[0, 1, 0], [1, 0, 0]], [0, 1])  # keep, flip, set 0
STAR_FREE = from_regex("(ab)*", "ab")
ENDS_IN_AB = from_regex("(a|b)*ab", "ab")


def words(name: str, spec: str = "all") -> Automaton:
    made = group(name)
    return word_automaton(made, alphabet(made, spec))


GROUPS = {name: words(name) for name in ("C2", "C3", "C4", "C2xC4", "S3", "D4", "D5", "Q8", "A4", "F20", "S4", "A5", "S5")}


def test_every_layer_has_a_rule() -> None:
    """A new layer needs a line in statetrack/theory/rules.py, if only one that says that nothing is proved."""
    assert sorted(RULES) == layers.names()


def test_a_layer_without_a_rule_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "rnn")
    found = depth("rnn", PARITY)
    assert (found.kind, found.layers, str(found)) == ("unknown", None, "?")
    with pytest.raises(UnknownNameError, match="Did you mean 'aussm'"):
        depth("ausm", PARITY)


# Layers needed at finite precision, as published (arXiv 2603.01959, 2411.12537, 2502.10297, 2503.14456, 2609.24797); "<=" where
# only an upper bound is published.
PUBLISHED = {
    "s4d": dict.fromkeys(GROUPS, "never"),
    "mamba": dict.fromkeys(GROUPS, "never"),
    "negative-mamba": {
        "C2": 1,
        "C3": "never",
        "C4": 2,
        "C2xC4": 2,
        "S3": "never",
        "D4": 2,
        "D5": "never",
        "A4": "never",
        "S5": "never",
    },
    "aussm": {"C3": 1, "C2xC4": 1, "S3": 2, "D4": 2, "D5": 2, "Q8": 2, "A4": 2, "F20": 2, "S4": 3, "A5": "never", "S5": "never"},
    "mamba3": {"C2": 1, "C4": 1, "S3": 2, "A4": 2, "S4": 3, "A5": "never"},
    "deltanet": {"C2": 1, "C3": 2, "C4": 2, "S3": 2, "D4": 2, "D5": 2, "A4": "<= 4", "S4": "<= 4", "A5": "<= 4", "S5": "<= 4"},
    "rwkv7": {"C2": 1, "C3": 2, "S3": 2, "A4": "<= 4", "S5": "<= 4"},
    "deltaproduct": {"C2": 1, "C3": 1, "S3": 1, "A4": 1, "S4": 1, "A5": 1, "S5": 1},
    "complex-kda": {"C2": 1, "C3": 1, "S3": 1, "D5": 1, "A4": 1, "S4": 1, "A5": 1, "S5": "<= 3"},
    "slice": dict.fromkeys(GROUPS, 1),
    "sd-ssm": dict.fromkeys(GROUPS, 1),
    "pd-ssm": dict.fromkeys(GROUPS, 1),
    "flash-pd-ssm": dict.fromkeys(GROUPS, 1),
    "rnn": dict.fromkeys(GROUPS, 1),
}


@pytest.mark.parametrize("layer", PUBLISHED)
def test_published_depths(layer: str) -> None:
    for name, expected in PUBLISHED[layer].items():
        found = depth(layer, GROUPS[name])
        if isinstance(expected, int):
            assert (found.kind, found.layers) == ("exact", expected), name
        elif expected == "never":
            assert (found.kind, found.layers) == ("never", None), name
        else:
            assert found.kind == "bounds"
            assert isinstance(found.layers, tuple) and found.layers[1] == int(expected.split()[1]), name


# Householder factors and block sizes for one layer, as published
FACTORS = {"C2": 1, "C3": 2, "C4": 2, "S3": 2, "D4": 2, "D5": 2, "A4": 2, "S4": 2, "A5": 2, "S5": 4}
BLOCKS = {"C2": 1, "C3": 2, "C4": 2, "S3": 2, "D4": 2, "D5": 2, "A4": 3, "S4": 3, "A5": 3, "S5": 4}


@pytest.mark.parametrize("name", FACTORS)
def test_published_options(name: str) -> None:
    assert depth("deltaproduct", GROUPS[name]).needs.endswith(f"n_householder >= {FACTORS[name]}")
    assert depth("slice", GROUPS[name]).needs == f"block_size >= {BLOCKS[name]}"
    size = group(name).order
    assert depth("pd-ssm", GROUPS[name]).needs == f"d_state >= {size}, dictionary_size >= {size}"


def test_the_alphabet_counts_where_a_symbol_is_one_reflection() -> None:
    swaps, all_of_it = words("S5", "swaps"), GROUPS["S5"]
    for layer in ("deltanet", "rwkv7", "complex-kda", "path-attention"):
        assert (depth(layer, swaps).kind, depth(layer, swaps).layers) == ("exact", 1)
        assert depth(layer, all_of_it).layers != 1
    assert depth("aussm", swaps).kind == "never"
    flips = Automaton(group("D5").elements[[i for i in range(10) if group("D5").n_moved_points[i] == 4]].T, range(5))
    assert (depth("deltanet", flips).layers, depth("aussm", flips).layers) == (1, 2)
    a5 = group("A5")
    involutions = word_automaton(a5, np.flatnonzero(a5.element_orders == 2))  # minus a half turn of space is a reflection
    assert (depth("deltanet", involutions).layers, depth("deltanet", words("A5", "generators")).layers) == (1, (2, 4))


@pytest.mark.parametrize("layer", layers.names())
def test_parity_agrees_with_what_the_layer_says_of_itself(layer: str) -> None:
    found = depth(layer, make_task("parity").automaton)
    kinds = {True: {"exact", "bounds"}, False: {"never"}, None: {"unknown"}}
    assert found.kind in kinds[layers.get(layer).traits.parity]


OTHERS = {
    "flip-flop": (
        FLIP_FLOP,
        {"mamba": 1, "complex-diagonal": 1, "deltanet": 1, "aussm": "never", "lru": None, "state-gated-rnn": 1},
    ),
    "parity with reset": (
        RESET,
        {"mamba": "never", "negative-mamba": 1, "complex-diagonal": 1, "aussm": "never", "s4d": "never"},
    ),
    "(ab)*": (STAR_FREE, {"mamba": (1, 2), "complex-diagonal": 2, "mamba3": 2, "aussm": "never", "deltaproduct": (1, 2)}),
    "ends in ab": (ENDS_IN_AB, {"mamba": 1, "s4d": 1, "shift": 1, "aussm": 1, "simple-aussm": "never", "deltanet": 1}),
    "a clock": (
        from_regex("((a|b)(a|b)(a|b))*", "ab"),
        {"s4d": 1, "mamba": "never", "aussm": 1, "shift": None, "negative-mamba": "never"},
    ),
    "a clock and the last letter": (
        from_regex("((a|b)(a|b))*a", "ab"),
        {"s4d": 1, "linoss": 1, "aussm": 1, "negative-mamba": 1, "mamba": "never", "deltanet": 1},
    ),
    "modular arithmetic": (
        make_task("modular-arithmetic").automaton,
        {"complex-diagonal": 2, "mamba": "never", "negative-mamba": "never", "deltanet": (2, None), "rwkv7": (2, 4)},
    ),
    "even pairs": (make_task("even-pairs").automaton, {"complex-diagonal": 2, "mamba": (1, 2), "aussm": "never"}),
    "the last letter": (Automaton([[1, 2], [1, 2], [1, 2]], [0, 1, 2]), dict.fromkeys(layers.names(), 0)),
    "nothing": (Automaton([[0, 0]], [0]), dict.fromkeys(layers.names(), 0)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_automata_that_are_no_groups(name: str) -> None:
    automaton, expected = OTHERS[name]
    for layer, answer in expected.items():
        found = depth(layer, automaton)
        assert (found.kind if answer == "never" else found.layers) == answer, layer
        assert (found.kind == "unknown") == (answer is None), layer


def test_only_the_behaviour_counts() -> None:
    renumbered = Automaton(np.array([[1, 2, 3], [0, 3, 2], [3, 0, 1], [2, 1, 0]])[:, [0, 1, 0]], [0, 1, 1, 1][:4])
    assert depths(renumbered) == depths(Automaton(renumbered.transitions, renumbered.outputs))
    doubled = product(PARITY, PARITY, lambda left, right: left)  # four states that behave like two
    assert {layer: str(found) for layer, found in depths(doubled).items()} == {
        layer: str(found) for layer, found in depths(PARITY).items()
    }


def test_series_are_subnormal_with_factors_of_the_kind() -> None:
    witness = depth("aussm", GROUPS["S4"]).witness
    assert witness == Series(("S4", "A4", "C2xC2", "C1"), ("C2", "C3", "C2xC2"))
    assert depth("negative-mamba", GROUPS["Q8"]).witness == Series(("Q8", "C2", "C1"), ("C2xC2", "C2"))
    for name, automaton in GROUPS.items():
        found = depth("aussm", automaton)
        if found.kind == "exact":
            assert found.layers == len(derived_series(group(name))) - 1


def test_periodic_words_permute_states() -> None:
    for automaton in (GROUPS["S4"], RESET, make_task("modular-arithmetic").automaton):
        found = depth("mamba", automaton)
        assert isinstance(found.witness, PeriodicWord)
        minimal = facts_of(automaton).automaton
        states, word = np.arange(minimal.n_states), np.array([int(symbol) for symbol in found.witness.word])
        seen, ends = [], states
        for _ in range(2 * minimal.n_states + 2 * found.witness.period):
            seen.append(ends)
            ends = minimal.final(np.tile(word, (minimal.n_states, 1)), ends)
        assert not np.array_equal(seen[-1], seen[-2])
        assert np.array_equal(seen[-1], seen[-1 - found.witness.period])


def test_other_witnesses() -> None:
    assert depth("aussm", GROUPS["S5"]).witness == InnerGroup("S5", 120, "A5")
    assert depth("negative-mamba", GROUPS["S3"]).witness == InnerGroup("S3", 6, "C1")
    assert depth("deltaproduct", GROUPS["S4"]).witness == Representation((3,), 2)
    assert depth("complex-diagonal", make_task("modular-arithmetic").automaton).witness == Cascade((("C4",), ("C5",)))
    assert depth("flash-pd-ssm", STAR_FREE).witness == Size(3, 2)
    assert [str(depth(layer, GROUPS["S5"]).witness) for layer in ("aussm", "deltaproduct")] == [
        "words permute 120 states by S5, with A5 inside",
        "real representations of degree 4, where symbols move at most 4 dimensions",
    ]
    assert str(depth("mamba", PARITY).witness) == "the word 1 permutes 2 states with period 2"


@pytest.mark.parametrize(
    "automaton", [GROUPS["S4"], STAR_FREE, make_task("modular-arithmetic").automaton], ids=["S4", "(ab)*", "arithmetic"]
)
def test_answers_are_json_with_reasons_and_sources(automaton: Automaton) -> None:
    for layer, found in depths(automaton).items():
        told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert told["kind"] == found.kind and told["reason"].endswith("."), layer
        if found.kind != "unknown":
            assert found.theorem.endswith(".") and found.source, layer
        if found.kind == "bounds":
            low, high = told["layers"]
            assert high is None or 1 <= low < high


def test_what_is_too_large_stays_unknown() -> None:
    found = depths(random_automaton(40, 2, np.random.default_rng(1)))
    assert {found[layer].kind for layer in ("mamba", "complex-diagonal", "deltanet", "s4d")} == {"unknown"}
    assert "nothing is decided" in found["mamba"].reason
    assert (found["flash-pd-ssm"].layers, found["rnn"].layers) == (1, 1)


def test_groups_that_are_too_large_to_list() -> None:
    found = depths(random_permutation_automaton(12, 2, np.random.default_rng(0)))
    assert {found[layer].kind for layer in ("mamba", "complex-diagonal", "negative-mamba", "transformer")} == {"never"}
    assert found["deltanet"].layers == (2, 4)
    assert found["deltaproduct"].layers == 1


def test_facts() -> None:
    told = facts_of(GROUPS["A5"]).summary()
    assert (told["order"], told["solvable"], told["derived_length"], told["groups"]) == (60, False, None, ["A5"])
    assert (told["group"]["real_degree"], told["group"]["composition_factors"], told["group"]["least_generators"]) == (
        3,
        ["A5"],
        2,
    )
    told = facts_of(STAR_FREE).summary()
    assert (told["order"], told["aperiodic"], told["solvable"], told["derived_length"], told["definite_order"]) == (
        6,
        True,
        True,
        0,
        None,
    )
    assert "group" not in told
    beside = facts_of(product(PARITY, ENDS_IN_AB)).split
    assert beside is not None and (beside.permutations.n_states, beside.memory) == (2, 2)
    assert facts_of(FLIP_FLOP).split is None
