"""The words of tasks: whatever a task draws is one of them, and asks and answers are where it says."""

import numpy as np
import pytest

from statetrack.analysis.language import Grammar, Specification, difference, grammar_of, moore, specification
from statetrack.analysis.words import random_words
from statetrack.automata import Automaton, equivalent, minimise
from statetrack.errors import InvalidInputError
from statetrack.tasks import make_task

TASKS = [
    *[
        (name, {"format": f})
        for name in ("parity", "even-pairs", "cycle-navigation", "modular-arithmetic")
        for f in ("slice", "xlstm", "chomsky")
    ],
    ("group-word", {"group": "S3"}),
    ("group-word", {"group": "S3", "label": "last", "bos": True}),
    ("group-word", {"group": "C3", "alphabet": "generators", "fillers": 3}),
    ("group-word", {"group": "C3", "bos": True, "fillers": 2, "label": "last"}),
    ("automaton", {"n_states": 5, "n_symbols": 3}),
]


@pytest.mark.parametrize("name, options", TASKS)
def test_drawn_words_and_their_answers(name, options):
    task = make_task(name, **options)
    found = specification(task)
    lengths = np.arange(task.min_length, task.min_length + 40)
    batch = task.sample(len(lengths), lengths, np.random.default_rng(3))
    states = found.walk(batch.inputs.numpy())
    for row, (state, n) in enumerate(zip(states, batch.lengths.tolist(), strict=True)):
        assert (state[:n] >= 0).all()
        told = np.flatnonzero(batch.mask[row].numpy())
        assert (found.answers[state[told]] == batch.targets[row].numpy()[told]).all()
        if options.get("label") != "last" and name in ("group-word", "automaton"):
            assert (np.flatnonzero(found.asked[state[:n]]) == told).all()


@pytest.mark.parametrize("name, options", TASKS)
def test_the_shortest_word_of_a_task_is_asked_about(name, options):
    task = make_task(name, **options)
    batch = task.sample(16, task.min_length, np.random.default_rng(0))
    found = specification(task)
    ends = found.walk(batch.inputs.numpy())[np.arange(16), batch.lengths.numpy() - 1]
    assert found.asked[ends].all()
    fewest = int(batch.lengths[0])
    assert not found.from_length(fewest + 1).asked[found.from_length(fewest + 1).walk(batch.inputs.numpy())[:, fewest - 1]].any()
    assert (found.from_length(fewest).answers[found.from_length(fewest).walk(batch.inputs.numpy())[:, fewest - 1]] >= 0).all()


def test_words_that_cannot_come():
    found = grammar_of(make_task("modular-arithmetic"))
    assert found.walk(np.array([[5, 1, 5, 4], [5, 5, 1, 4], [1, 5, 4, 0], [5, 4, 5, 1]]))[:, -1].tolist() == [2, -1, -1, -1]


def test_a_task_whose_words_are_not_known():
    with pytest.raises(InvalidInputError, match="not known which words"):
        grammar_of(make_task("modular-arithmetic-brackets"))


def test_the_machine_of_a_specification_counts_an_idle_start_once():
    machine = specification(make_task("parity")).automaton()
    assert machine.n_states == 2
    assert machine.output([0, 1, 1, 1]).tolist() == [1, 2, 1, 2]
    assert specification(make_task("modular-arithmetic", format="chomsky")).automaton().n_outputs == 6
    assert equivalent(specification(make_task("group-word", group="A5", alphabet="generators")).automaton(), _words("A5"))


def _words(name):
    task = make_task("group-word", group=name, alphabet="generators")
    return minimise(task.words)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_remembering_tokens_changes_no_answer(n):
    found = specification(make_task("cycle-navigation"))
    longer = found.remembering(n)
    words = random_words(found, 20, 15, np.random.default_rng(n))
    assert (found.answers[found.walk(words)] == longer.answers[longer.walk(words)]).all()
    pairs = {}
    for word, states in zip(words, longer.walk(words), strict=True):
        for t, state in enumerate(states):
            assert pairs.setdefault(int(state), tuple(word[max(0, t + 1 - n) : t + 1])) == tuple(word[max(0, t + 1 - n) : t + 1])


def test_random_words_end_in_a_question():
    task = make_task("modular-arithmetic", format="chomsky")
    found = grammar_of(task)
    words = random_words(found, 30, 20, np.random.default_rng(0))
    states = found.walk(words)
    ends = (states >= 0).sum(axis=1)
    assert (ends > 20).all()
    assert found.asked[states[np.arange(30), ends - 1]].all()
    assert len(np.unique(words[:, 0])) == 5


def test_difference_is_a_shortest_word_that_is_not_empty():
    left = Automaton([[0, 1], [1, 0]], [0, 1])
    right = Automaton([[0, 1], [1, 1]], [1, 1])
    assert difference(left, right) == (0,)
    assert difference(left, Automaton([[1, 2], [1, 2], [2, 1]], [5, 0, 1])) is None


def test_moore_turns_what_cannot_come_into_no_question():
    grammar = Grammar(np.array([[1, -1], [-1, 0]]), np.array([False, True]), 0)
    machine = moore(grammar, [-1, 2], 7)
    assert machine.output([0, 1, 0, 0, 1]).tolist() == [2, 7, 2, 7, 7]


def test_a_specification_is_a_grammar():
    found = specification(make_task("parity"))
    assert isinstance(found, Specification)
    source, token, after = found.edges([0, 1])
    assert list(zip(source.tolist(), token.tolist(), after.tolist(), strict=True)) == [(0, 1, 1), (0, 2, 2), (1, 1, 1), (1, 2, 2)]
