"""The formal-language tasks in every format, against Python's own arithmetic and hand-written id tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrack.automata.minimisation import minimise
from statetrack.tasks import Batch, Task, make_task
from statetrack.tasks.layout import FORMATS
from statetrack.tasks.modular_arithmetic import values_mod_5


class Case(NamedTuple):
    """What a task in one format should look like: ids by hand, the truth by brute force."""

    task: str
    options: dict
    letters: dict[int, str]
    answer: Callable[[str], int]
    vocab_size: int
    n_classes: int
    first_class: int
    closing: int | None
    padding: int
    chance: float
    seen: dict[int, int]
    """Number of input tokens for each of some lengths; the smallest length is the least that is allowed."""


def parity(word: str) -> int:
    return word.count("b") % 2


def unequal_neighbours(word: str) -> int:
    return sum(left != right for left, right in itertools.pairwise(word)) % 2


def walk(cycle: int) -> Callable[[str], int]:
    def end(word: str) -> int:
        place = 0
        for move in word:
            place = (place + {"s": 0, "f": 1, "b": -1}[move]) % cycle
        return place

    return end


def evaluated(word: str) -> int:
    return eval(word, {"__builtins__": {}}) % 5


AB, AB_FROM_1 = {0: "a", 1: "b"}, {1: "a", 2: "b"}
PLAIN = {n: n for n in (1, 2, 3, 7, 40)}
SLOT = {n: n - 1 for n in (2, 3, 4, 8, 40)}
EMPTY = {n: n + 1 for n in (1, 2, 3, 7, 40)}
DIGITS_FROM_5 = dict(zip(range(5, 10), "01234", strict=True)) | {1: "+", 2: "-", 3: "*"}
DIGITS = dict(enumerate("01234+-*"))
BRACKETS = dict(enumerate("01234+-*()"))
BRACKETS_FROM_1 = {token + 1: letter for token, letter in BRACKETS.items()}

CASES = [
    Case("parity", {"format": "slice"}, AB_FROM_1, parity, 3, 3, 1, None, 0, 0.5, PLAIN),
    Case("parity", {"format": "xlstm"}, AB_FROM_1, parity, 3, 3, 1, None, 0, 0.5, SLOT),
    Case("parity", {"format": "chomsky"}, AB, parity, 3, 2, 0, 2, 2, 0.5, EMPTY),
    Case("even-pairs", {"format": "slice"}, AB_FROM_1, unequal_neighbours, 3, 3, 1, None, 0, 0.5, PLAIN),
    Case("even-pairs", {"format": "xlstm"}, AB_FROM_1, unequal_neighbours, 3, 3, 1, None, 0, 0.5, SLOT),
    Case("even-pairs", {"format": "chomsky"}, AB, unequal_neighbours, 3, 2, 0, 2, 2, 0.5, EMPTY),
    Case("cycle-navigation", {"format": "slice"}, {1: "s", 2: "f", 3: "b"}, walk(5), 9, 9, 4, None, 0, 0.2, PLAIN),
    Case("cycle-navigation", {"format": "xlstm"}, {1: "s", 2: "f", 3: "b"}, walk(6), 10, 10, 4, None, 0, 1 / 6, SLOT),
    Case("cycle-navigation", {"format": "xlstm", "cycle": 5}, {1: "s", 2: "f", 3: "b"}, walk(5), 9, 9, 4, None, 0, 0.2, SLOT),
    Case("cycle-navigation", {"format": "chomsky"}, {0: "b", 1: "s", 2: "f"}, walk(5), 4, 5, 0, 3, 3, 0.2, EMPTY),
    Case("cycle-navigation", {"format": "chomsky", "cycle": 7}, {0: "b", 1: "s", 2: "f"}, walk(7), 4, 7, 0, 3, 3, 1 / 7, EMPTY),
    Case(
        *("modular-arithmetic", {"format": "slice"}, DIGITS_FROM_5, evaluated, 10, 10, 5, 4, 0, 0.2),
        seen={2: 2, 3: 4, 4: 4, 5: 6, 6: 6, 39: 40, 40: 40, 41: 42},
    ),
    Case(
        *("modular-arithmetic", {"format": "xlstm"}, DIGITS_FROM_5, evaluated, 10, 10, 5, 4, 0, 0.2),
        seen={3: 2, 4: 2, 5: 4, 6: 4, 39: 38, 40: 38, 41: 40, 255: 254, 256: 254},
    ),
    Case(
        *("modular-arithmetic", {"format": "chomsky"}, DIGITS, evaluated, 10, 5, 0, 9, 9, 0.2),
        seen={1: 2, 2: 2, 3: 4, 4: 4, 39: 40, 40: 40, 41: 42},
    ),
    Case(
        *("modular-arithmetic-brackets", {"format": "slice"}, BRACKETS_FROM_1, evaluated, 12, 12, 1, 11, 0, 0.2),
        seen={2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 10: 10, 40: 40},
    ),
    Case(
        *("modular-arithmetic-brackets", {"format": "xlstm"}, BRACKETS, evaluated, 12, 12, 0, 10, 11, 0.2),
        seen={3: 3, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6, 9: 7, 40: 38},
    ),
    Case(
        *("modular-arithmetic-brackets", {"format": "chomsky"}, BRACKETS, evaluated, 12, 5, 0, 11, 11, 0.2),
        seen={1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 9: 10, 40: 41},
    ),
    Case(
        *("modular-arithmetic-brackets", {"format": "chomsky", "multiplication": False}),
        *({token: letter for token, letter in BRACKETS.items() if letter != "*"}, evaluated, 12, 5, 0, 11, 11, 0.2),
        seen={1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 9: 10, 40: 41},
    ),
]
IDS = ["-".join([case.task, *map(str, case.options.values())]) for case in CASES]
UNIFORM = {name: case for name, case in zip(IDS, CASES, strict=True) if case.task != "modular-arithmetic-brackets"}
every_case = pytest.mark.parametrize("case", CASES, ids=IDS)


def texts(case: Case, batch: Batch) -> list[str]:
    """The word of each row, after checking the row's form: word, closing token, padding."""
    words = []
    for row, length in zip(batch.inputs.tolist(), batch.lengths.tolist(), strict=True):
        tokens, rest = row[:length], row[length:]
        assert all(token == case.padding for token in rest)
        if case.closing is not None:
            assert tokens.pop() == case.closing
        words.append("".join(case.letters[token] for token in tokens))
    return words


def check(case: Case, task: Task, batch: Batch) -> None:
    """Every row asks at its last token alone, and the target and the automaton both tell the truth there."""
    rows, last = np.arange(len(batch.lengths)), batch.lengths.numpy() - 1
    truth = np.array([case.answer(word) for word in texts(case, batch)]) + case.first_class
    expected_targets, expected_mask = np.zeros(batch.targets.shape, dtype=np.int64), np.zeros(batch.mask.shape, dtype=bool)
    expected_targets[rows, last], expected_mask[rows, last] = truth, True
    assert np.array_equal(batch.targets.numpy(), expected_targets)
    assert np.array_equal(batch.mask.numpy(), expected_mask)
    if task.automaton is not None:
        assert np.array_equal(task.automaton.output(batch.inputs.numpy())[rows, last], truth)


@every_case
def test_size_attributes(case: Case) -> None:
    task = make_task(case.task, **case.options)
    assert (task.vocab_size, task.n_classes, task.padding) == (case.vocab_size, case.n_classes, case.padding)
    assert task.chance == pytest.approx(case.chance, abs=1e-15)
    assert task.min_length == min(case.seen)
    assert (task.automaton is None) == (case.task == "modular-arithmetic-brackets")
    if task.automaton is not None:
        assert task.automaton.n_symbols == case.vocab_size
        assert task.automaton.n_outputs <= case.n_classes


@every_case
def test_rows_of_one_length(case: Case) -> None:
    task = make_task(case.task, **case.options)
    generator = np.random.default_rng(11)
    for length, seen in case.seen.items():
        batch = task.sample(9, length, generator)
        assert batch.inputs.shape == batch.targets.shape == batch.mask.shape == (9, seen)
        assert batch.lengths.tolist() == [seen] * 9
        check(case, task, batch)


@every_case
def test_rows_of_mixed_lengths(case: Case) -> None:
    task = make_task(case.task, **case.options)
    generator = np.random.default_rng(5)
    lengths = generator.permutation(np.repeat(list(case.seen), 20))
    batch = task.sample(len(lengths), lengths, generator)
    assert batch.lengths.tolist() == [case.seen[length] for length in lengths.tolist()]
    assert batch.inputs.shape == (len(lengths), max(case.seen.values()))
    check(case, task, batch)


@pytest.mark.parametrize("case", UNIFORM.values(), ids=UNIFORM)
def test_all_words_of_a_short_length_occur_about_equally_often(case: Case) -> None:
    task = make_task(case.task, **case.options)
    length = next(length for length, seen in case.seen.items() if seen == (3 if case.closing is None else 4))
    words, counts = np.unique(texts(case, task.sample(15_000, length, np.random.default_rng(0))), return_counts=True)
    expected = {"parity": 2**3, "even-pairs": 2**3, "cycle-navigation": 3**3, "modular-arithmetic": 5 * 3 * 5}[case.task]
    assert len(words) == expected
    mean = 15_000 / expected
    assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


@every_case
def test_labels_are_balanced_as_the_chance_says(case: Case) -> None:
    task = make_task(case.task, **case.options)
    batch = task.sample(4000, 40, np.random.default_rng(3))
    shares = np.bincount(batch.targets[batch.mask].numpy(), minlength=task.n_classes) / 4000
    assert np.count_nonzero(shares) == round(1 / task.chance)
    if case.task == "modular-arithmetic-brackets" and case.options.get("multiplication", True):
        assert 0.25 < shares.max() < 0.32  # products favour zero, as the class says
    else:
        assert shares.max() == pytest.approx(task.chance, abs=0.03)


def test_the_hand_example_of_the_three_formats() -> None:
    """The word a b b a: its ids and its answer in each format (none of the layouts is used here to make them)."""
    for format, length, row, target in (
        ("chomsky", 4, [0, 1, 1, 0, 2], 0),
        ("xlstm", 5, [1, 2, 2, 1], 1),
        ("slice", 4, [1, 2, 2, 1], 1),
    ):
        batch = make_task("parity", format=format).sample(400, length, np.random.default_rng(0))
        matches = (batch.inputs == batch.inputs.new_tensor(row)).all(dim=1)
        assert matches.any()
        assert batch.mask[matches].tolist() == [[False] * (len(row) - 1) + [True]] * int(matches.sum())
        assert set(batch.targets[matches][:, -1].tolist()) == {target}


@pytest.mark.parametrize("format", FORMATS)
def test_the_arithmetic_machine_is_minimal_and_ignores_tokens_without_meaning(format: str) -> None:
    case = CASES[IDS.index(f"modular-arithmetic-{format}")]
    machine = make_task(case.task, **case.options).automaton
    assert machine is not None
    assert minimise(machine).n_states == machine.n_states == 25
    idle = [token for token in range(case.vocab_size) if token not in case.letters]
    assert all(np.array_equal(machine.transitions[:, token], np.arange(25)) for token in idle)


@pytest.mark.parametrize("task, n_states", [("parity", 2), ("even-pairs", 5), ("cycle-navigation", 5)])
def test_the_other_machines_are_minimal(task: str, n_states: int) -> None:
    machine = make_task(task).automaton
    assert machine is not None
    assert minimise(machine).n_states == machine.n_states == n_states


digit_and_operator = st.tuples(st.integers(0, 4), st.integers(5, 7))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(digit_and_operator, min_size=1, max_size=12), min_size=1, max_size=4))
def test_any_expression_has_the_value_that_python_gives_it(rows: list[list[tuple[int, int]]]) -> None:
    expressions = [list(itertools.chain(*row))[:-1] for row in rows]
    lengths = np.array([len(symbols) for symbols in expressions])
    words = np.full((len(rows), lengths.max()), 7)  # rubbish right of a word
    for word, symbols in zip(words, expressions, strict=True):
        word[: len(symbols)] = symbols
    expected = [evaluated("".join(DIGITS[symbol] for symbol in symbols)) for symbols in expressions]
    assert values_mod_5(words, lengths).tolist() == expected


def parts(word: str) -> tuple[str, str, str]:
    """Left part, operator and right part of a compound expression; fails on words outside the grammar."""
    assert word[0] == "(" and word[-1] == ")"
    for at in range(2, len(word) - 2):
        left, operator, right = word[1:at], word[at], word[at + 1 : -1]
        if operator in "+-*" and derivable(left) and derivable(right):
            return left, operator, right
    raise AssertionError(f"{word} is not in the grammar")


def derivable(word: str) -> bool:
    shapes = {1: "d", 2: "-d", 3: "(d)", 4: "(-d)"}
    if len(word) in shapes:
        return "".join("d" if letter.isdigit() else letter for letter in word) == shapes[len(word)]
    try:
        return bool(word) and bool(parts(word))
    except AssertionError:
        return False


def test_bracketed_words_follow_the_grammar_with_uniform_splits_and_operators() -> None:
    case = CASES[IDS.index("modular-arithmetic-brackets-xlstm")]
    task = make_task(case.task, **case.options)
    for length in (1, 2, 3, 4, 5, 6, 7, 12, 20):
        assert all(map(derivable, texts(case, task.sample(20, max(3, length + 3), np.random.default_rng(length)))))
    n, length = 3000, 10
    split = [parts(word) for word in texts(case, task.sample(n, length + 3, np.random.default_rng(1)))]
    left_lengths = np.bincount([len(left) for left, _, _ in split], minlength=7)[1:]
    assert np.abs(left_lengths - n / 6).max() < 4 * np.sqrt(n / 6)
    operators = np.array([[operator == sign for sign in "+-*"] for _, operator, _ in split]).sum(axis=0)
    assert np.abs(operators - n / 3).max() < 4 * np.sqrt(n / 3)
