"""Verdicts: proofs of networks that are right, words that refute others, and what is left open."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from statetrack.analysis import Specification, certify, check, decide, specification
from statetrack.analysis.certificate.proof import Limits, prove
from statetrack.analysis.certificate.refute import Effort, search
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.automata import counterexample, random_automaton, trim, word_automaton
from statetrack.automata import group as group_called
from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig, Tagger
from statetrack.tasks import make_task
from statetrack.training import train
from statetrack.training.files import write_json

from .conftest import answers_of, exact_tagger, small_config


def of(automaton):
    """Every word of an automaton, asked about after each symbol."""
    outputs = automaton.outputs
    return Specification(automaton.transitions, np.ones(len(outputs), dtype=bool), automaton.start, outputs, automaton.n_outputs)


def holds(run, tmp_path):
    """A run's certificate, once the checker has accepted it."""
    stored = certify(run)
    assert stored["verdict"] == "certified", stored
    write_json(tmp_path / "certificate.json", stored)
    check(tmp_path / "certificate.json", run)
    return stored


def wrong_words(model, found, length):
    """All words up to a length that the model gets wrong, shortest and alphabetically first in front."""
    wrong = []
    for n in range(1, length + 1):
        words = np.array(list(itertools.product(found.tokens, repeat=n)))
        expected, given = found.expected(words)[:, -1], answers_of(model, words)[:, -1]
        wrong += [tuple(word) for word in words[(expected >= 0) & (given != expected)].tolist()]
    return wrong


@pytest.mark.parametrize("task", ["parity", "cycle-navigation"])
def test_a_trained_flash_pd_ssm_is_certified(learnt, task, tmp_path):
    run = learnt("flash-pd-ssm", task)
    stored = holds(run, tmp_path)
    assert stored["margin"] > 0
    assert "every word" in stored["statement"]
    found = specification(run.task)
    words = np.random.default_rng(0).choice(found.tokens, (8, 3000))
    assert (answers_of(run.load_model(), words) == found.expected(words)).all()


def test_a_trained_pd_ssm_is_certified(learnt, tmp_path):
    holds(learnt("pd-ssm", "parity"), tmp_path)


def test_an_automaton_that_forgets_is_certified_with_values_that_decay(learnt, tmp_path):
    """Sigmoid modulus and additive input: boxes, not points. The task is to tell the last letter."""
    options = {"modulus": "sigmoid", "additive_input": True, "magnitude_bias": 0.0}
    run = learnt("flash-pd-ssm", "automaton", task_options={"regex": "(a|b)*b"}, **options)
    stored = holds(run, tmp_path)
    assert stored["statement"].endswith("in float32 token by token.")
    spread = [hi - lo for piece in stored["pieces"] for node in piece["nodes"] for lo, hi in zip(node[2], node[3], strict=True)]
    assert max(spread) > 0.01


def test_a_network_that_has_not_learnt_is_refuted(barely_trained):
    stored = certify(barely_trained)
    assert stored["verdict"] == "refuted"
    found, model = specification(barely_trained.task), barely_trained.load_model()
    shortest = wrong_words(model, found, 6)[0]
    word = stored["counterexample"]["word"]
    assert len(word) == len(shortest)
    assert stored["counterexample"]["shortest"]
    assert tuple(word) in wrong_words(model, found, len(shortest))
    assert answers_of(model, np.array([word]))[0, -1] == stored["counterexample"]["given"]
    assert found.expected(np.array([word]))[0, -1] == stored["counterexample"]["expected"]


def test_a_network_that_decays_is_refuted_by_a_long_word(learnt):
    run = learnt("flash-pd-ssm", "parity", modulus="sigmoid")
    stored = certify(run)
    assert stored["verdict"] == "refuted"
    word = np.array([stored["counterexample"]["word"]])
    found = specification(run.task)
    wrong = answers_of(run.load_model(), word)[0] != found.expected(word)[0]
    assert np.flatnonzero(wrong).tolist() == [word.shape[1] - 1]
    assert word.shape[1] > 16


@pytest.mark.parametrize("layer", ["flash-pd-ssm", "pd-ssm"])
@pytest.mark.parametrize("seed", range(3))
def test_exact_weights_are_certified_and_one_wrong_move_refutes_them(layer, seed):
    automaton = random_automaton(7, 3, np.random.default_rng(seed))
    model = exact_tagger(automaton, layer)
    assert decide(model, of(automaton)).verdict == "certified"
    with torch.no_grad():
        table = model.layers[0].scores[0, 1]
        table[:, 4] = torch.roll(table[:, 4], 1)
    moved = automaton.transitions.copy()
    moved[4, 1] = (moved[4, 1] + 1) % 7
    shortest = counterexample(type(automaton)(moved, automaton.outputs, automaton.start), automaton)
    decision = decide(model, of(automaton))
    assert decision.verdict == "refuted"
    assert decision.counterexample.shortest
    assert len(decision.counterexample.word) == len(shortest)


def test_a5_is_certified():
    group = group_called("A5")
    automaton = word_automaton(group, group.generators)
    decision = decide(exact_tagger(automaton), of(automaton))
    assert decision.verdict == "certified"
    assert len(decision.proof.pieces[0].states) == 60
    assert 3.9 < decision.proof.margin < 4


def test_rows_do_what_columns_do_as_long_as_nothing_merges():
    group = group_called("S3")
    automaton = word_automaton(group, group.generators)
    assert decide(exact_tagger(automaton, orientation="row"), of(automaton)).verdict == "certified"
    merging = type(automaton)([[0, 1], [0, 1]], [0, 1])
    assert decide(exact_tagger(merging), of(merging)).verdict == "certified"
    assert decide(exact_tagger(merging, orientation="row"), of(merging)).verdict == "refuted"


def test_a_tie_is_followed_both_ways():
    automaton = random_automaton(5, 2, np.random.default_rng(1))
    model = exact_tagger(automaton)
    cell = model.layers[0]
    with torch.no_grad():
        cell.router.weight[1, 0] = cell.router.weight[0, 0]  # symbol 0 now ties between both maps
    with pytest.raises(Undecided, match="do not tell"):
        prove(model, of(automaton))
    with torch.no_grad():
        cell.scores[0, 1] = cell.scores[0, 0]  # equal maps: the tie does not matter
    loop = type(automaton)(automaton.transitions[:, [0, 0]], automaton.outputs, automaton.start)
    assert prove(model, of(loop)).margin > 3.9


def test_a_margin_within_rounding_proves_nothing():
    automaton = word_automaton(group_called("C3"), [1, 2])
    model = exact_tagger(automaton)
    with torch.no_grad():
        model.head.weight.mul_(1e-9)
        model.head.bias.add_(1.0)
    with pytest.raises(Undecided, match="do not tell"):
        prove(model, of(automaton))


def two_counters():
    """Head 0 counts symbol 0 modulo 2 and head 1 symbol 1; class 0 gains where both are even."""
    options = {"d_state": 2, "n_heads": 2, "dictionary_size": 2, "d_field": "real", "modulus": "unit"}
    config = ModelConfig(d_model=4, norm="none", layer={**options, "additive_input": False, "skip": False})
    model = Tagger("flash-pd-ssm", 2, 2, config).eval()
    cell = model.layers[0]
    swap, stay = torch.eye(2).flip(0), torch.eye(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[[0, 1], [0, 1]] = 1.0
        cell.router.weight.view(2, 2, 4)[:, [0, 1], [0, 1]] = 5.0
        cell.scores[0], cell.scores[1] = torch.stack([swap, stay]), torch.stack([stay, swap])
        cell.readout.out.weight[range(4), range(4)] = 1.0
        model.head.weight[0] = torch.tensor([1.0, -1.0, 1.0, -1.0])
        model.head.bias[1] = 1.0
    return model


def test_heads_that_know_the_answer_only_together():
    """Each place is possible for either head when both counts are known modulo 2 only through the answer."""
    both_even = word_automaton(group_called("C2xC2"), [1, 2])
    both_even = type(both_even)(both_even.transitions, [0, 1, 1, 1])
    decision = decide(two_counters(), of(both_even))
    assert decision.verdict == "certified"
    assert decision.proof.margin == pytest.approx(1, abs=1e-4)
    # Told only how many letters were read, modulo 2, the heads are never both at place 1 when the number is odd.
    length = type(both_even)([[1, 1], [0, 0]], [0, 0])
    even_length = Specification(length.transitions, np.array([False, True]), 0, np.array([-1, 1]), 2)
    decision = decide(two_counters(), even_length)
    assert decision.verdict == "certified"
    assert [len(piece.states) for piece in decision.proof.pieces] == [4]


def constant_answer():
    """One answer to every word over two letters."""
    always = random_automaton(3, 2, np.random.default_rng(0))
    return Specification(always.transitions, np.ones(3, dtype=bool), 0, np.zeros(3, dtype=np.int64), 1)


def test_what_has_no_bounds_is_left_open_unless_it_is_refuted():
    torch.manual_seed(0)
    model = Tagger("lstm", 2, 1, ModelConfig(d_model=4, layer={"d_state": 3})).eval()
    decision = decide(model, constant_answer(), effort=Effort(states=100, lengths=(8,)))
    assert decision.verdict == "undecided"
    assert "no bounds for the layer LSTM" in decision.missing


@pytest.mark.parametrize("modulus", ["unit", "annealed"])
def test_picked_phases_are_left_open(modulus):
    torch.manual_seed(0)
    layer = {"d_state": 2, "modulus": modulus, "phase_levels": 4}
    model = Tagger("complex-diagonal", 2, 1, ModelConfig(d_model=4, layer=layer)).eval()
    decision = decide(model, constant_answer(), effort=Effort(states=100, lengths=(8,)))
    assert decision.verdict == "undecided"
    assert "phases are picked" in decision.missing


def test_one_class_has_nothing_to_lead_over(tmp_path):
    path = tmp_path / "constant.json"
    path.write_text('{"transitions": [[0, 0]], "outputs": [0]}')
    config = small_config("flash-pd-ssm", "automaton", steps=1, task_options={"file": str(path)})
    run = train(replace(config, batch_size=2), tmp_path / "run")
    assert holds(run, tmp_path)["margin"] is None


def test_a_limit_on_states_leaves_the_answer_open():
    group = group_called("S4")
    automaton = word_automaton(group, group.generators)
    with pytest.raises(Undecided, match="more than 10 states"):
        prove(exact_tagger(automaton), of(automaton), Limits(nodes=10))


def test_every_state_is_visited_where_there_are_few():
    automaton = random_automaton(9, 2, np.random.default_rng(5))
    found = search(exact_tagger(automaton), of(automaton), Effort(lengths=()))
    assert found.exhausted
    assert found.counterexample is None
    assert found.visited == 9


@pytest.mark.parametrize("name", ["modular-arithmetic", "cycle-navigation"])
@pytest.mark.parametrize("format", ["slice", "chomsky"])
def test_answers_count_where_the_task_asks(name, format):
    task = make_task(name, format=format)
    model = exact_tagger(trim(task.automaton))
    assert decide(model, specification(task)).verdict == "certified"
    with torch.no_grad():
        wrong = (int(trim(task.automaton).outputs[1]) + 1) % task.n_classes
        model.head.weight[:, 1] = 0.0
        model.head.weight[wrong, 1] = 4.0
    decision = decide(model, specification(task))
    assert decision.verdict == "refuted"
    assert wrong_words(model, specification(task), 4)[0] == decision.counterexample.word


def test_short_words_can_be_left_out(learnt):
    run = learnt("flash-pd-ssm", "parity")
    assert "from 5 tokens on" in certify(run, shortest=5)["statement"]
    with pytest.raises(InvalidInputError, match="at least 1"):
        certify(run, shortest=0)


@pytest.mark.parametrize(("nodes", "history"), [(0, 4), (-5, 4), (9, -1)])
def test_limits_that_follow_nothing_are_refused(nodes, history):
    with pytest.raises(InvalidInputError, match="At least 1 state"):
        Limits(nodes=nodes, history=history)
