"""Group word problems, against products of permutations taken one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks import make_task
from statetrack.tasks.group_word import GroupWord


def products(task: GroupWord, tokens: list[int]) -> list[int]:
    """Ids of the running products ``y x``, the new factor acting first."""
    elements = [tuple(row) for row in task.group.elements.tolist()]
    letters = [elements[i] for i in task.alphabet.tolist()]
    product, ids = tuple(range(len(elements[0]))), []
    for token in tokens:
        product = tuple(product[point] for point in letters[token])
        ids.append(elements.index(product))
    return ids


@pytest.mark.parametrize(
    "group, alphabet, n_symbols, order",
    [
        ("A5", "all", 60, 60),
        ("A5", "generators", 2, 60),
        ("A5", "random-6", 6, 60),
        ("S5", "swaps", 11, 120),
        ("S5", "3-point", 31, 120),
        ("C6", "generators", 2, 6),
        ("A4xZ5", "all", 60, 60),
    ],
)
def test_labels_are_running_products(group: str, alphabet: str, n_symbols: int, order: int) -> None:
    task = make_task("group-word", group=group, alphabet=alphabet)
    assert isinstance(task, GroupWord)
    assert (task.vocab_size, task.padding, task.n_classes) == (n_symbols + 1, n_symbols, order)
    assert task.chance == 1 / order
    lengths = np.array([1, 12, 5, 30])
    batch = task.sample(4, lengths, np.random.default_rng(0))
    for row, target, asked, length in zip(batch.inputs, batch.targets, batch.mask, lengths, strict=True):
        assert asked.tolist() == [True] * length + [False] * (30 - length)
        assert target[:length].tolist() == products(task, row[:length].tolist())
    assert task.automaton is not None
    emitted = task.automaton.output(batch.inputs.numpy())
    assert np.array_equal(emitted[batch.mask.numpy()], batch.targets[batch.mask].numpy())


def test_only_the_last_product_with_a_beginning_token() -> None:
    task = make_task("group-word", group="S3", label="last", bos=True)
    assert isinstance(task, GroupWord)
    lengths = np.array([2, 7, 4])
    batch = task.sample(3, lengths, np.random.default_rng(3))
    assert batch.inputs[:, 0].tolist() == [7] * 3 and task.vocab_size == 8
    assert batch.lengths.tolist() == (lengths + 1).tolist()
    for row, target, asked, length in zip(batch.inputs, batch.targets, batch.mask, lengths, strict=True):
        assert asked.nonzero().flatten().tolist() == [length]
        assert target[length] == products(task, row[1 : length + 1].tolist())[-1]


def test_labels_are_uniform_over_the_group_in_the_long_run() -> None:
    task = make_task("group-word", group="A5", alphabet="generators", label="last")
    n = 12_000
    batch = task.sample(n, 60, np.random.default_rng(0))
    counts = np.bincount(batch.targets[:, -1].numpy(), minlength=60)
    assert np.abs(counts - n / 60).max() < 5 * np.sqrt(n / 60)
    guess = np.random.default_rng(1).permutation(batch.targets[:, -1].numpy())
    assert (guess == batch.targets[:, -1].numpy()).mean() == pytest.approx(task.chance, abs=0.006)


def test_the_alphabet_seed_changes_the_symbols_but_not_the_generators() -> None:
    one, two = (make_task("group-word", alphabet="random-8", alphabet_seed=seed) for seed in (0, 1))
    assert isinstance(one, GroupWord) and isinstance(two, GroupWord)
    assert one.alphabet[:2].tolist() == two.alphabet[:2].tolist() and one.alphabet.tolist() != two.alphabet.tolist()


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"group": "a5"}, UnknownNameError, "Did you mean 'A5'"),
        ({"alphabet": "generator"}, UnknownNameError, "Did you mean 'generators'"),
        ({"alphabet": "swaps"}, InvalidInputError, "reaches only 1 of the 60"),
        ({"label": "final"}, UnknownNameError, "Unknown label 'final'"),
        ({"bos": 1}, InvalidInputError, "bos must be True or False, got 1"),
        ({"fillers": -1}, InvalidInputError, "fillers must be a whole number of at least 0, got -1"),
        ({"alphabet_seed": "x"}, InvalidInputError, "alphabet_seed must be a whole number"),
    ],
)
def test_wrong_options(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_task("group-word", **options)
