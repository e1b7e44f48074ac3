"""The context-free and context-sensitive tasks, one word at a time in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from statetrack.tasks import make_task

NAMES = [
    "reverse-string",
    "duplicate-string",
    "odds-first",
    "bucket-sort",
    "missing-duplicate",
    "binary-addition",
    "binary-multiplication",
    "square-root",
    "stack-manipulation",
    "solve-equation",
]


def number(bits: list[int]) -> int:
    return int("".join(map(str, bits)), 2) if bits else 0


def little_endian(value: int) -> list[int]:
    return [int(bit) for bit in reversed(f"{value:b}")] if value else []


def evaluate(symbols: list[int]) -> int:
    return eval("".join("01234+-()"[s] for s in symbols)) % 5


def stack(word: list[int]) -> list[int]:
    held: list[int] = []
    for symbol in word:
        if symbol < 2:
            held.append(symbol)
        elif symbol == 2:
            held = held[:-1]
        else:
            held.append(symbol - 3)
    return [*reversed(held), 2]


def solutions(word: list[int]) -> list[int]:
    if len(word) < 3:
        return [0]
    left, value = word[:-2], word[-1]
    assert word[-2] == 10 and left.count(9) == 1
    return [x for x in range(5) if evaluate([x if s == 9 else s for s in left]) == value]


def missing(word: list[int]) -> list[int]:
    if len(word) == 1:
        assert word == [1]
        return [1]
    if len(word) % 2:
        assert word[-1] == 3
        word = word[:-1]
    half = len(word) // 2
    one, two = word[:half], word[half:]
    (at,) = [i for i in range(half) if one[i] != two[i]]
    assert 2 in (one[at], two[at]) and word.count(2) == 1
    return [one[at] + two[at] - 2]


def arithmetic(word: list[int], name: str) -> list[int]:
    if len(word) <= 2:
        return [*word, 2] if name == "binary-addition" else [0] * (len(word) - 1) + [2]
    at = word.index(2)
    one, two = (number(part[::-1]) for part in (word[:at], word[at + 1 :]))
    assert one and two
    return [*little_endian(one + two if name == "binary-addition" else one * two), 2]


def root(word: list[int]) -> list[int]:
    value, width = number(word), (len(word) + 1) // 2
    assert value
    return [int(bit) for bit in f"{math.isqrt(value):0{width}b}"]


def answer(name: str, word: list[int]) -> list[int]:
    plain = {
        "reverse-string": lambda: word[::-1],
        "duplicate-string": lambda: word + word,
        "odds-first": lambda: word[::2] + word[1::2],
        "bucket-sort": lambda: sorted(word),
        "missing-duplicate": lambda: missing(word),
        "square-root": lambda: root(word),
        "stack-manipulation": lambda: stack(word),
        "solve-equation": lambda: solutions(word),
    }
    return arithmetic(word, name) if name.startswith("binary") else plain[name]()


def n_steps(name: str, n: int) -> int:
    """Empty steps after a word of length n, as published."""
    extra = {"binary-addition": n + 1, "stack-manipulation": n + 1, "duplicate-string": 2 * n, "square-root": (n + 1) // 2}
    return 1 if name in ("missing-duplicate", "solve-equation") else extra.get(name, n)


@pytest.mark.parametrize("name", NAMES)
def test_answers(name: str) -> None:
    task = make_task(name)
    lengths = np.array([*range(1, 30), 90] * 3)
    batch = task.sample(len(lengths), lengths, np.random.default_rng(0))
    assert task.ceiling == 1.0 and task.automaton is None
    for inputs, targets, mask, total, n in zip(
        batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), batch.lengths.tolist(), lengths.tolist(), strict=True
    ):
        word, expected = inputs[:n], answer(name, inputs[:n])
        assert task.empty not in word and inputs[n:total] == [task.empty] * n_steps(name, n)
        assert mask == [n <= at < n + len(expected) for at in range(len(mask))]
        assert [target for target, scored in zip(targets, mask, strict=True) if scored] == expected


def test_the_released_odds_first_tells_even_places_first() -> None:
    batch = make_task("odds-first", first="even").sample(20, np.arange(1, 21), np.random.default_rng(0))
    for inputs, targets, mask, n in zip(batch.inputs, batch.targets, batch.mask, range(1, 21), strict=True):
        word = inputs[:n].tolist()
        assert targets[mask].tolist() == word[1::2] + word[::2]


def test_holes_numbers_and_unknowns_are_uniform() -> None:
    n = 6000
    words = make_task("missing-duplicate").sample(n, 8, np.random.default_rng(1)).inputs[:, :8].numpy()
    holes = (words == 2).mean(axis=0)
    assert np.abs(holes - 1 / 8).max() < 4 * np.sqrt(1 / 8 / n)
    words = make_task("binary-addition").sample(n, 8, np.random.default_rng(1)).inputs[:, :8].numpy()
    operators = (words == 2).mean(axis=0)
    assert np.abs(operators[1:7] - 1 / 6).max() < 4 * np.sqrt(1 / 6 / n) and operators[0] == operators[7] == 0
    single = words[words[:, 6] == 2][:, 7]
    assert single.min() == 1, "a number of one digit is 1, as numbers are positive"
    roots = make_task("square-root").sample(n, 3, np.random.default_rng(1)).inputs[:, :3].numpy() @ [4, 2, 1]
    assert np.abs(np.bincount(roots, minlength=8)[1:] / n - 1 / 7).max() < 0.02 and roots.min() == 1


def test_a_stack_begins_with_one_to_all_but_one_symbols() -> None:
    words = make_task("stack-manipulation").sample(9000, 4, np.random.default_rng(0)).inputs[:, :4].numpy()
    shown = (words < 2).sum(axis=1)
    assert np.abs(np.bincount(shown, minlength=5)[1:4] / 9000 - 1 / 3).max() < 0.02 and shown.max() == 3


def test_the_unknown_replaces_the_next_digit_from_a_uniform_place() -> None:
    # (d+d) has the digits at places 1 and 3; from places 2 and 3 the second is met first, from 4, 0 and 1 the first.
    words = make_task("solve-equation").sample(8000, 7, np.random.default_rng(0)).inputs[:, :5].numpy()
    both = (words[:, 0] == 7) & (words[:, 1] != 5) & (words[:, 2] >= 5) & (words[:, 2] <= 6) & (words[:, 4] == 8)
    both &= (words[:, 1] < 5) | (words[:, 1] == 9)
    both &= (words[:, 3] < 5) | (words[:, 3] == 9)
    assert (words[both][:, 1] == 9).mean() == pytest.approx(3 / 5, abs=0.03)
