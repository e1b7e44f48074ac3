"""Depths that are called enough are built here, from equations in float64, and run on random words."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.automata import (
    Automaton,
    alphabet,
    from_regex,
    group,
    holonomy,
    minimise,
    random_automaton,
    word_automaton,
)
from statetrack.automata.holonomy import Component, Move, Place
from statetrack.tasks import make_task
from statetrack.theory import depth, facts_of

DIGIT = 1e-3
"""A reset multiplies the old state by this; what was there before is then read off the second digit."""


class Turns:
    """The states of one level: the tiles of a component are vectors on which its (commuting) permutations act diagonally."""

    def __init__(self, components: tuple[Component, ...]) -> None:
        generator = np.random.default_rng(0)
        self.bases, self.slices, start = [], [], 0
        for component in components:
            n = len(component.tiles)
            elements = [np.eye(n)[:, row] for row in component.group.elements] if not component.is_trivial else [np.eye(n)]
            mixed = sum(
                c * (m + m.T) + 1j * d * (m - m.T)
                for m, c, d in zip(elements, *generator.normal(size=(2, len(elements))), strict=True)
            )
            self.bases.append(np.linalg.eigh(mixed)[1].conj().T if not component.is_trivial else np.eye(n))
            self.slices.append(slice(start, start + n))
            start += n
        self.size = start

    def code(self, place: Place) -> np.ndarray:
        code = np.zeros(self.size, dtype=complex)
        code[self.slices[place[0]]] = self.bases[place[0]][:, place[1]]
        return code

    def decode(self, h: np.ndarray) -> Place:
        places = [(c, t) for c, basis in enumerate(self.bases) for t in range(basis.shape[1])]
        return min(places, key=lambda place: float(np.abs(h - self.code(place)).sum()))

    def step(self, move: Move) -> tuple[np.ndarray, np.ndarray]:
        """The diagonal a and the input b of ``h <- a h + b``."""
        if move.reset is not None:
            return np.full(self.size, DIGIT), self.code(move.reset)
        a = np.ones(self.size, dtype=complex)
        if move.permutation:
            basis, n = self.bases[move.component], len(move.permutation)
            matrix = np.zeros((n, n))
            matrix[list(move.permutation), np.arange(n)] = 1
            turned = basis @ matrix @ basis.conj().T
            assert np.allclose(turned, np.diag(np.diag(turned)))
            a[self.slices[move.component]] = np.diag(turned)
        return a, np.zeros(self.size)

    def before(self, h: np.ndarray, move: Move) -> Place:
        """The place before the step, read off the state after it."""
        now = self.decode(h)
        if move.reset is not None:
            return self.decode((h - self.code(now)) / DIGIT)
        if move.permutation and now[0] == move.component:
            return now[0], move.permutation.index(now[1])
        return now


def errors_of_a_diagonal_stack(automaton: Automaton, length: int, allowed: str) -> tuple[int, int]:
    """Layers, and wrong states on a random word, of a stack in which a layer sees the symbol and the layers below after it."""
    cascade = holonomy(automaton)
    levels = [Turns(components) for components in cascade.levels]
    h = [turns.code(place) for turns, place in zip(levels, cascade.lift(automaton.start), strict=True)]
    state, wrong = automaton.start, 0
    for symbol in np.random.default_rng(1).integers(automaton.n_symbols, size=length).tolist():
        old: list[Place] = []
        for i, turns in enumerate(levels):
            guess = (*old, *[(0, 0)] * (len(levels) - i))
            move = cascade.moves(guess, symbol)[i]
            a, b = turns.step(move)
            assert (np.abs(a) <= 1 + 1e-12).all()
            assert allowed == "complex" or np.allclose(a.imag, 0)
            assert allowed != "positive" or (a.real >= 0).all()
            h[i] = a * h[i] + b
            old.append(turns.before(h[i], move))
        state = int(automaton.transitions[state, symbol])
        places = tuple(turns.decode(x) for turns, x in zip(levels, h, strict=True))
        wrong += cascade.project(places) != state
    return len(levels), wrong


DIAGONAL = {
    "(ab)*": (from_regex("(ab)*", "ab"), "mamba", "positive"),
    "even pairs": (make_task("even-pairs").automaton, "mamba", "positive"),
    "(a|bab)* over a, b, c": (from_regex("(a|bca)*", "abc"), "mamba", "positive"),
    "random, aperiodic": (random_automaton(5, 2, np.random.default_rng(8)), "mamba", "positive"),
    "another": (random_automaton(6, 2, np.random.default_rng(51)), "mamba", "positive"),
    "parity of a run": (from_regex("(b|a(aa)*b)*", "ab"), "negative-mamba", "real"),
    "modular arithmetic": (make_task("modular-arithmetic").automaton, "complex-diagonal", "complex"),
    "counter that stops": (from_regex("(aaa)*b(a|b)*", "ab"), "complex-diagonal", "complex"),
}


@pytest.mark.parametrize("name", DIAGONAL)
def test_levels_of_the_cascade_are_diagonal_layers(name: str) -> None:
    automaton, layer, allowed = DIAGONAL[name]
    found = depth(layer, automaton)
    assert found.layers is not None, found
    most = found.layers[1] if isinstance(found.layers, tuple) else found.layers
    n_layers, wrong = errors_of_a_diagonal_stack(minimise(automaton), 400, allowed)
    assert wrong == 0
    assert n_layers == most


def test_digits_keep_the_last_symbols_beside_a_group() -> None:
    """One diagonal layer: a sign for the parity of a, and digits for the last two letters (AUSSM sees these at once)."""
    automaton = make_task("automaton", regex="((b|ab*a)*)&((a|b)*ab)", letters="ab").words
    split = facts_of(automaton).split
    assert split is not None and split.memory == 2 and split.permutations.n_states == 2
    assert (depth("negative-mamba", automaton).layers, depth("aussm", automaton).layers) == (1, 1)
    sign, digits, seen = 1.0, 0.0, {}
    minimal = minimise(automaton)
    word = np.random.default_rng(0).integers(2, size=500)
    for symbol, state in zip(word.tolist(), minimal.run(word).tolist(), strict=True):
        sign, digits = (1 - 2 * (symbol == 0)) * sign, 0.1 * digits + symbol + 1
        last, before = int(digits), int(10 * (digits % 1))
        seen.setdefault((sign, last, before), set()).add(state)
    assert all(len(states) == 1 for states in seen.values())
    assert {state for states in seen.values() for state in states} == set(range(minimal.n_states))


def test_order_of_symbols_and_one_diagonal_layer() -> None:
    """Where the order of two symbols is said not to matter for good, no words show that it does; elsewhere some do."""
    generator = np.random.default_rng(0)
    verdicts = set()
    for seed in range(60):
        automaton = random_automaton(4, 2, np.random.default_rng(seed))
        matters = False
        for _ in range(40):
            u, t, v = (generator.integers(2, size=generator.integers(0, 5)).tolist() for _ in range(3))
            repeated = [*v, 0, 1] * 12  # has both symbols; periods and tails of four states are over after 12 rounds
            ends = []
            for pair in ([0, 1], [1, 0]):
                word = np.array([*u, *pair, *t, *repeated])
                ends.append(automaton.final(np.tile(word, (4, 1)), np.arange(4)).tolist())
            matters |= ends[0] != ends[1]
        assert not (facts_of(automaton).forgets_order and facts_of(automaton).n_states == 4 and matters)
        verdicts.add((facts_of(automaton).forgets_order, matters))
    assert {(True, False), (False, True)} <= verdicts


def test_gates_count_symbols_of_abelian_groups() -> None:
    """State-gated RNN: ``h <- z h + (1 - z) (W h + c)``; plane j turns when symbol j is read and stays otherwise."""
    for name in ("C2xC4", "C6"):
        made = group(name)
        automaton = word_automaton(made, alphabet(made, "all"))
        assert depth("state-gated-rnn", automaton).layers == 1
        orders = made.element_orders
        angles = 2 * np.pi / orders
        turn = np.exp(1j * angles)
        h = np.zeros(made.order, dtype=complex)  # turns about the point 1
        state = 0
        for symbol in np.random.default_rng(0).integers(made.order, size=500).tolist():
            z = 1 / (1 + np.exp(-80.0 * (np.arange(made.order) != symbol) + 40.0))
            h = z * h + (1 - z) * (turn * h + (1 - turn))
            state = int(made.multiply(state, symbol))
            counts = np.rint(np.angle(1 - h) / angles).astype(int) % orders
            total = 0
            for element, count in enumerate(counts.tolist()):
                for _ in range(count):
                    total = int(made.multiply(total, element))
            assert total == state


def reflections_of(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix - np.eye(len(matrix)), tol=1e-8))


def test_rotations_of_space_take_two_reflections() -> None:
    """S4 as the rotations of a cube: signed permutation matrices of determinant 1, each at most two reflections."""
    signed = [
        np.eye(3)[:, list(p)] * s for p in group("S3").elements for s in np.array(np.meshgrid(*[[1, -1]] * 3)).reshape(3, -1).T
    ]
    rotations = [m for m in signed if np.linalg.det(m) > 0]
    assert len(rotations) == 24
    assert max(map(reflections_of, rotations)) == 2
    assert depth("deltaproduct", word_automaton(group("S4"), range(24))).needs.endswith(">= 2")


def test_swaps_are_single_reflections() -> None:
    s5 = group("S5")
    permutation_matrices = [np.eye(5)[:, row] for row in s5.elements]
    swaps = alphabet(s5, "swaps")
    assert {reflections_of(permutation_matrices[i]) for i in swaps.tolist()} == {0, 1}
    assert max(map(reflections_of, permutation_matrices)) == 4
    assert depth("deltaproduct", word_automaton(s5, swaps)).needs.endswith(">= 1")
    assert depth("deltaproduct", word_automaton(s5, range(120))).needs.endswith(">= 4")
