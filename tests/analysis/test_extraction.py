"""Automata of networks, read off and learnt, against the ones they were built from."""

import builtins
import json
import sys

import numpy as np
import pytest
import torch

from statetrack.analysis import draw, extract, grammar_of, specification
from statetrack.analysis.extraction.black_box import Answers, learn
from statetrack.analysis.extraction.white_box import read_off
from statetrack.analysis.language import Grammar, tidied
from statetrack.automata import Automaton, equivalent, minimise, random_automaton, word_automaton
from statetrack.automata import group as group_called
from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.models import ModelConfig, Tagger
from statetrack.training import Run

from .conftest import answers_of, exact_tagger


def free(automaton):
    """All words over the symbols of an automaton, asked about after each."""
    return Grammar(np.zeros((1, automaton.n_symbols), dtype=np.int64), np.ones(1, dtype=bool), 0)


def expected(automaton):
    """The minimal machine, its start counted once."""
    return tidied(automaton.transitions, automaton.outputs, automaton.start, np.arange(automaton.n_symbols))


@pytest.mark.parametrize("layer", ["flash-pd-ssm", "pd-ssm"])
@pytest.mark.parametrize("seed", range(3))
def test_reading_off_exact_weights(layer, seed):
    automaton = random_automaton(8, 3, np.random.default_rng(seed))
    found = read_off(exact_tagger(automaton, layer), free(automaton), np.random.default_rng(0))
    assert equivalent(found.automaton, automaton)
    assert (found.heads, found.unexplained, found.n_places) == ([(0, 0)], 0, 8)


@pytest.mark.parametrize("learner", ["kv", "lstar"])
def test_a5_has_sixty_states(learner):
    group = group_called("A5")
    automaton = word_automaton(group, group.generators)
    model = exact_tagger(automaton)
    assert read_off(model, free(automaton), np.random.default_rng(0)).automaton.n_states == 60
    found = learn(model, free(automaton), np.random.default_rng(0), learner=learner)
    assert found.complete
    assert minimise(found.automaton) == minimise(automaton)


def test_states_with_equal_answers_are_merged():
    group = group_called("S3")
    sign = word_automaton(group, group.generators)
    even = [int(g in group.closure([group.multiply(a, b) for a in group.generators for b in group.generators])) for g in range(6)]
    sign = Automaton(sign.transitions, even)
    found = read_off(exact_tagger(sign), free(sign), np.random.default_rng(1))
    assert found.automaton.n_states == minimise(sign).n_states < 6
    assert equivalent(found.automaton, sign)


def test_learning_stops_at_the_largest_number_of_states():
    group = group_called("S4")
    automaton = word_automaton(group, group.generators)
    found = learn(exact_tagger(automaton), free(automaton), np.random.default_rng(0), max_states=5)
    assert not found.complete


def test_answers_are_those_of_whole_words_though_states_are_dropped():
    torch.manual_seed(1)
    model = Tagger("lstm", 3, 4, ModelConfig(d_model=6, layer={"d_state": 5})).eval()
    grammar = Grammar(np.zeros((1, 3), dtype=np.int64), np.ones(1, dtype=bool), 0)
    answers = Answers(model, grammar, stored=4)
    for word in np.random.default_rng(0).integers(0, 3, (30, 9)).tolist():
        assert answers.along(tuple(word)) == answers_of(model, np.array([word]))[0].tolist()
    assert len(answers.states) <= 4


def test_no_answer_is_asked_outside_the_words():
    task_words = grammar_of(_task("modular-arithmetic"))
    model = Tagger("rnn", 10, 10, ModelConfig(d_model=4)).eval()
    assert Answers(model, task_words).along((5, 5, 4))[1:] == [10, 10]
    assert Answers(model, task_words).along(())[0] == 10


def _task(name):
    from statetrack.tasks import make_task

    return make_task(name)


@pytest.mark.parametrize("task", ["parity", "cycle-navigation"])
def test_a_trained_network_has_the_automaton_of_its_task(learnt, task):
    run = learnt("flash-pd-ssm", task)
    found = extract(run)
    assert (found.method, found.equivalent, found.details["unexplained"]) == ("selections", True, 0)
    assert found.automaton == specification(run.task).automaton()
    assert set(found.agreement.values()) == {1.0}
    n = {"parity": 2, "cycle-navigation": 5}[task]
    assert found.monoid == {"size": n, "aperiodic": False, "group": True, "solvable": True}
    for learner in ("kv", "lstar"):
        learned = extract(run, method=learner)
        assert (learned.automaton, learned.details["complete"]) == (found.automaton, True)


def test_the_word_on_which_a_network_and_its_task_differ(barely_trained):
    found = extract(barely_trained, method="kv", max_states=40)
    assert found.equivalent is False
    model, told = barely_trained.load_model(), specification(barely_trained.task)
    word = np.array([found.differs])
    model_says = answers_of(model, word)[0, -1]
    assert model_says == found.automaton.output([found.automaton.symbols.index(str(t)) for t in found.differs])[-1]
    assert model_says != told.expected(word)[0, -1]


def test_a_network_without_selections_is_learnt(tmp_path):
    run = _untrained("rnn", tmp_path)
    found = extract(run, max_states=30)
    assert found.method == "kv"
    with pytest.raises(InvalidInputError, match="not off RNN"):
        extract(run, method="selections")
    with pytest.raises(InvalidInputError, match="method must be one of"):
        extract(run, method="guess")


def _untrained(layer, tmp_path):
    from statetrack.recipes.defaults import default_config
    from statetrack.training import train

    from .conftest import small_config

    config = default_config(layer, "parity").to_dict() | {"steps": 1, "batch_size": 2}
    config["evaluation"] |= {"n": 4, "low": 8, "high": 8}
    return train(type(small_config("flash-pd-ssm", "parity")).from_dict(config), tmp_path / "run")


def test_without_aalpy_the_error_names_the_extra(monkeypatch):
    automaton = random_automaton(3, 2, np.random.default_rng(0))
    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda name, *a: real("no_such_module" if name.startswith("aalpy") else name, *a))
    for name in [name for name in sys.modules if name.startswith("aalpy")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError, match=r"statetrack\[extract\]"):
        learn(exact_tagger(automaton), free(automaton), np.random.default_rng(0))


def test_plain_data(learnt):
    found = json.loads(json.dumps(extract(learnt("flash-pd-ssm", "parity")).to_dict()))
    assert (found["states"], found["target_states"], found["equivalent"], found["differs"]) == (2, 2, True, None)
    assert found["transitions"] == [[0, 1], [1, 0]]
    assert (found["tokens"], found["outputs"]) == ([1, 2], [1, 2])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures(tmp_path, suffix):
    machine = Automaton([[1, 0], [2, 0], [2, 2]], [0, 1, 5], symbols=("a", "b"))
    path = tmp_path / "of" / f"machine{suffix}"
    draw(machine, path, title="three states", no_question=5)
    assert path.stat().st_size > 500
    if suffix == ".svg":
        text = path.read_text()
        assert text.count("<!-- a -->") == 1  # the arrow to the dead state is left out
        assert "<!-- three states -->" in text


def test_pictures_that_cannot_be_drawn(tmp_path):
    with pytest.raises(InvalidInputError, match="ends in"):
        draw(Automaton([[0]], [0]), tmp_path / "x.gif", title="", no_question=1)
    with pytest.raises(InvalidInputError, match="makes no picture"):
        draw(random_automaton(300, 2, np.random.default_rng(0)), tmp_path / "x.png", title="", no_question=999)


def test_one_state_and_many_make_pictures(tmp_path):
    draw(Automaton([[0]], [0]), tmp_path / "one.png", title="", no_question=1)
    draw(random_automaton(60, 4, np.random.default_rng(0)), tmp_path / "many.png", title="", no_question=99)
    assert (tmp_path / "many.png").exists()


def test_runs_are_what_is_extracted_from(learnt):
    assert isinstance(learnt("flash-pd-ssm", "parity"), Run)
