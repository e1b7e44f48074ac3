"""Automata as tasks, against step-by-step runs and Python's regular expressions."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from statetrack.automata.automaton import Automaton
from statetrack.automata.search import reachable
from statetrack.errors import InvalidInputError
from statetrack.tasks import Batch, make_task
from statetrack.tasks.automaton_task import AutomatonTask, LabelledWords, majority_share

MOD3 = Automaton([[0, 1], [1, 2], [2, 0]], [4, 0, 2])
LENGTHS = np.array([1, 6, 3, 9, 2, 5])


def run(automaton: Automaton, word: list[int]) -> list[int]:
    """Classes after each symbol, one step at a time."""
    state, classes = automaton.start, []
    for symbol in word:
        state = int(automaton.transitions[state][symbol])
        classes.append(int(automaton.outputs[state]))
    return classes


def labelled(batch: Batch) -> list[list[tuple[int, int]]]:
    """Position and class of the labels of each row."""
    rows = zip(batch.targets.tolist(), batch.mask.tolist(), strict=True)
    return [[(at, target) for at, (target, asked) in enumerate(zip(*row, strict=True)) if asked] for row in rows]


@pytest.mark.parametrize("label", ["every", "last"])
def test_labels_are_what_the_automaton_emits(label: str) -> None:
    task = AutomatonTask(MOD3, label=label)
    batch = task.sample(6, LENGTHS, np.random.default_rng(0))
    assert batch.lengths.tolist() == LENGTHS.tolist()
    for row, labels, length in zip(batch.inputs.tolist(), labelled(batch), LENGTHS, strict=True):
        assert row[length:] == [task.padding] * (9 - length)
        emitted = list(enumerate(run(MOD3, row[:length])))
        assert labels == (emitted if label == "every" else emitted[-1:])
    assert (task.vocab_size, task.n_classes, task.padding) == (3, 5, 2)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("fillers", [0, 1, 3])
@pytest.mark.parametrize("label", ["every", "last"])
def test_beginning_and_fillers(bos: bool, fillers: int, label: str) -> None:
    task = LabelledWords(MOD3, label=label, bos=bos, fillers=fillers)
    batch = task.sample(6, LENGTHS, np.random.default_rng(1))
    plain = LabelledWords(MOD3, label=label).sample(6, LENGTHS, np.random.default_rng(1))
    padding, beginning, filler = 2, 3, 3 + bos
    for row, plain_row, length in zip(batch.inputs.tolist(), plain.inputs.tolist(), LENGTHS, strict=True):
        expected = [beginning] * bos
        for symbol in plain_row[:length]:
            expected += [symbol] + [filler] * fillers
        assert row == expected + [padding] * (len(row) - len(expected))
    places = [[(bos + (at + 1) * (1 + fillers) - 1, target) for at, target in row] for row in labelled(plain)]
    assert labelled(batch) == places
    assert task.vocab_size == 3 + bos + (fillers > 0)
    assert task.automaton is not None and task.automaton.n_symbols == task.vocab_size
    emitted = task.automaton.output(batch.inputs.numpy())
    assert np.array_equal(emitted[batch.mask.numpy()], batch.targets[batch.mask].numpy())


@pytest.mark.parametrize("pattern, letters", [("(ab|b)*a?", "ab"), ("0*(10)*", "01"), ("(a|b|c)*cc", "abc")])
def test_a_regular_expression_labels_the_prefixes_it_matches(pattern: str, letters: str) -> None:
    task = make_task("automaton", regex=pattern, letters=letters)
    batch = task.sample(40, 8, np.random.default_rng(2))
    for row, target in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        word = "".join(letters[token] for token in row)
        assert target == [int(re.fullmatch(pattern, word[: at + 1]) is not None) for at in range(8)]
    assert task.n_classes == 2


def test_an_automaton_from_a_file(tmp_path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"transitions": [[1, 0], [2, 1], [0, 2]], "outputs": [0, 1, 1], "start": 2}))
    task = make_task("automaton", file=str(path), label="last")
    assert task.words == Automaton([[1, 0], [2, 1], [0, 2]], [0, 1, 1], start=2)
    assert task.chance == pytest.approx(2 / 3, abs=1e-9)


@pytest.mark.parametrize("permutations", [False, True])
def test_random_automata_are_reproducible_connected_and_of_the_size_asked_for(permutations: bool) -> None:
    options = {"n_states": 7, "n_symbols": 3, "permutations": permutations}
    task, same, other = (make_task("automaton", **options, automaton_seed=seed) for seed in (5, 5, 6))
    assert task.words == same.words and task.words != other.words
    assert task.words.transitions.shape == (7, 3) and reachable(task.words).size == task.n_classes == 7
    columns_permute = (np.sort(task.words.transitions, axis=0) == np.arange(7)[:, None]).all()
    assert columns_permute == permutations
    assert make_task("automaton").words.transitions.shape == (8, 4)


def test_the_majority_share_is_the_stationary_one() -> None:
    machine = make_task("automaton", n_states=6, n_symbols=2, automaton_seed=1).words
    step = np.zeros((6, 6))
    for state in range(6):
        for symbol in range(2):
            step[state, machine.transitions[state, symbol]] += 0.5
    average, place = np.zeros(6), np.eye(6)[machine.start]
    for _ in range(20_000):
        place = place @ step
        average += place / 20_000
    assert majority_share(machine) == pytest.approx(average.max(), abs=1e-3)
    swing = Automaton([[1], [0]], [0, 1])
    assert majority_share(swing) == pytest.approx(0.5)
    assert make_task("automaton", regex="(ab)*").chance == pytest.approx(1.0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"regex": "a*", "file": "x.json"}, "one automaton, but got regex and file"),
        ({"regex": "a*", "n_states": 3}, "one automaton, but got regex and a random automaton"),
        ({"n_states": 0}, "n_states must be a whole number of at least 1, got 0"),
        ({"n_symbols": 2.5}, "n_symbols must be a whole number of at least 1, got 2.5"),
        ({"automaton_seed": -1}, "automaton_seed must be"),
        ({"permutations": "yes"}, "permutations must be True or False, got 'yes'"),
        ({"file": "no/such/file.json"}, "Cannot read the automaton file 'no/such/file.json': No such file"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_task("automaton", **options)


@pytest.mark.parametrize(
    "text, message",
    [
        ("not json", "is not JSON .*It should look like"),
        ("[1, 2]", "lacks 'transitions' or 'outputs'"),
        ('{"transitions": [[0]]}', "lacks 'transitions' or 'outputs'"),
        ('{"transitions": [[0, 3]], "outputs": [0]}', "does not fit: transitions must lie in 0 .. 0"),
        ('{"transitions": [[0]], "outputs": [0], "strat": 0}', "does not fit: Unknown key 'strat'. Did you mean 'start'"),
        ('{"transitions": [[0]], "outputs": [0], "start": null}', "does not fit: start must"),
        ('{"transitions": [[0]], "outputs": [0], "symbols": 3}', "does not fit: "),
        ('{"transitions": [[0]], "outputs": [0], "symbols": [3]}', "does not fit: "),
        ('{"transitions": {"a": 1}, "outputs": [0]}', "does not fit: "),
        ('{"transitions": [[0], [0, 1]], "outputs": [0, 1]}', "does not fit: "),
        ('{"transitions": [["a"]], "outputs": [0]}', "does not fit: "),
    ],
)
def test_files_without_an_automaton(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        make_task("automaton", file=str(path))
