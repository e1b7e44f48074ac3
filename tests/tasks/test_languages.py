"""Dyck words, Tomita's languages, acceptors from files: against enumeration, regular expressions and hand-run stacks."""

from __future__ import annotations

import itertools
import json
import lzma
import re

import numpy as np
import pytest

from statetrack.automata import minimise
from statetrack.automata.automaton import Automaton
from statetrack.automata.counting import WordCounts
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks import make_task
from statetrack.tasks.acceptor_files import acceptor_of
from statetrack.tasks.language import Membership

# -- Dyck ----------------------------------------------------------------------------------------------------------------------


def legal(prefix: list[int], n_types: int, depth: int) -> tuple[bool, int | None]:
    """Whether a bracket may open after a prefix, and which one may close."""
    held: list[int] = []
    for token in prefix:
        if token < n_types:
            held.append(token)
        else:
            assert held and held[-1] == token - n_types
            held.pop()
        assert len(held) <= depth
    return len(held) < depth, held[-1] if held else None


@pytest.mark.parametrize("n_types, depth", [(1, 1), (2, 4), (3, 2), (8, 10)])
def test_dyck_tells_what_may_come_next(n_types: int, depth: int) -> None:
    task = make_task("dyck", n_types=n_types, depth=depth)
    batch = task.sample(40, np.array([1, 30, 17, 50] * 10), np.random.default_rng(0))
    for inputs, targets, mask, n in zip(batch.inputs, batch.targets, batch.mask, batch.lengths.tolist(), strict=True):
        assert mask.tolist() == [True] * n + [False] * (50 - n)
        for at in range(n):
            opens, closes = legal(inputs[: at + 1].tolist(), n_types, depth)
            expected = 0 if closes is None else 1 + closes + (0 if opens else n_types)
            assert int(targets[at]) == expected
    n_stacks = sum(n_types**d for d in range(depth + 1))
    assert (task.automaton is not None) == (n_stacks <= 20_000)
    if task.automaton is not None:
        assert task.automaton.n_states == n_stacks + 1
        assert task.automaton.output(batch.inputs.numpy())[batch.mask.numpy()].tolist() == batch.targets[batch.mask].tolist()


@pytest.mark.parametrize("opening", [0.2, 0.5, 0.9])
def test_brackets_open_as_often_as_they_should(opening: float) -> None:
    task = make_task("dyck", n_types=2, depth=3, opening=opening)
    free = opened = 0
    for row in task.sample(60, 100, np.random.default_rng(0)).inputs.tolist():
        height = 0
        for token in row:
            free, opened = free + (0 < height < 3), opened + (0 < height < 3 and token < 2)
            height += 1 if token < 2 else -1
    assert opened / free == pytest.approx(opening, abs=0.04)


# -- Tomita --------------------------------------------------------------------------------------------------------------------


def in_third(word: str) -> bool:
    return not any(len(ones) % 2 and len(zeros) % 2 for ones, zeros in re.findall("(1+)(0+)", word))


TOMITA = {
    1: (lambda w: "0" not in w, 2, 1),
    2: (lambda w: re.fullmatch("(10)*", w) is not None, 3, 1),
    3: (in_third, 5, 312),
    4: (lambda w: "000" not in w, 4, 504),
    5: (lambda w: w.count("0") % 2 == w.count("1") % 2 == 0, 4, 512),
    6: (lambda w: (w.count("0") - w.count("1")) % 3 == 0, 3, 342),
    7: (lambda w: re.fullmatch("0*1*0*1*", w) is not None, 5, 176),
}


@pytest.mark.parametrize("grammar", TOMITA)
def test_tomita(grammar: int) -> None:
    belongs, n_states, accepted = TOMITA[grammar]
    task = make_task("tomita", grammar=grammar, label="every")
    assert minimise(task.acceptor).n_states == task.acceptor.n_states == n_states
    words = np.array(list(itertools.product((0, 1), repeat=10)))
    texts = ["".join(map(str, word)) for word in words.tolist()]
    outputs = task.acceptor.output(words)
    assert outputs.tolist() == [[int(belongs(text[:n])) for n in range(1, 11)] for text in texts]
    assert int(outputs[:, -1].sum()) == accepted == WordCounts(task.acceptor, task.acceptor.outputs == 1).count(10)


@pytest.mark.parametrize("grammar", TOMITA)
@pytest.mark.parametrize("words", ["balanced", "uniform", "neighbours"])
def test_words_of_tomita_tasks(grammar: int, words: str) -> None:
    belongs = TOMITA[grammar][0]
    task = make_task("tomita", grammar=grammar, words=words)
    batch = task.sample(400, np.array([4, 8] * 200), np.random.default_rng(0))
    for row, targets, mask, n in zip(batch.inputs.tolist(), batch.targets, batch.mask, batch.lengths.tolist(), strict=True):
        assert mask.tolist() == [at == n - 1 for at in range(8)]
        assert int(targets[n - 1]) == belongs("".join(map(str, row[:n])))
    if words != "uniform":
        assert batch.targets[batch.mask].double().mean().item() == pytest.approx(0.5, abs=0.1)
        members = {tuple(row[:n]) for row, n in zip(batch.inputs.tolist(), batch.lengths.tolist(), strict=True)}
        assert len(members) > 10
    if words == "neighbours":
        for row, target, n in zip(batch.inputs.tolist(), batch.targets[batch.mask].tolist(), batch.lengths.tolist(), strict=True):
            text = "".join(map(str, row[:n]))
            flips = [text[:i] + "10"[int(text[i])] + text[i + 1 :] for i in range(n)]
            assert target or any(map(belongs, flips))


def test_a_language_without_words_of_a_length_gives_the_others() -> None:
    batch = make_task("tomita", grammar=5).sample(50, 7, np.random.default_rng(0))
    assert int(batch.targets.sum()) == 0


# -- counting and sampling ------------------------------------------------------------------------------------------------------


def test_words_are_counted_exactly_and_drawn_uniformly() -> None:
    task = make_task("regular-language")
    acceptor = task.acceptor
    words = np.array(list(itertools.product(range(4), repeat=5)))
    inside = words[acceptor.output(words)[:, -1] == 1]
    counts = WordCounts(acceptor, acceptor.outputs == 1)
    assert [counts.count(n) for n in range(4)] == [1, 4, 15, 57] and counts.count(5) == len(inside)
    drawn = counts.sample(np.full(40_000, 5), np.random.default_rng(0))
    codes, times = np.unique(drawn @ 4 ** np.arange(5), return_counts=True)
    assert sorted(codes.tolist()) == sorted((inside @ 4 ** np.arange(5)).tolist())
    mean = 40_000 / len(inside)
    assert np.abs(times - mean).max() < 5 * np.sqrt(mean)


def test_counts_may_be_larger_than_any_machine_number() -> None:
    everything = WordCounts(Automaton(np.zeros((1, 64), dtype=np.int64), np.array([1])), np.array([True]))
    assert everything.count(50) == 2**300
    rare = np.zeros((2, 64), dtype=np.int64)
    rare[0, 1:], rare[1] = 1, 1
    only = WordCounts(Automaton(rare, np.array([1, 0])), np.array([True, False]))
    assert only.count(300) == 1 and not only.sample(np.array([300, 7]), np.random.default_rng(0)).any()
    with pytest.raises(InvalidInputError, match="accepts no word of length 3"):
        WordCounts(Automaton(rare, np.array([1, 0])), np.array([False, False])).sample(np.array([3]), np.random.default_rng(0))


def test_neighbours_are_uniform_among_the_changes_that_leave_the_language() -> None:
    # Words of a, b of length 3 with exactly one b: every change leaves the language.
    acceptor = Automaton(np.array([[0, 1], [1, 2], [2, 2]]), np.array([0, 1, 0]))
    task = Membership(acceptor, words="neighbours", label="last")
    batch = task.sample(8000, 3, np.random.default_rng(1))
    outside = batch.inputs[batch.targets[:, -1] == 0].numpy()
    codes, times = np.unique(outside @ [4, 2, 1], return_counts=True)
    # 000 is reached from each of the three members by one of three changes, each word with two b's from two.
    assert codes.tolist() == [0, 3, 5, 6]
    assert np.abs(times / times.sum() - np.array([3, 2, 2, 2]) / 9).max() < 0.03


# -- files ---------------------------------------------------------------------------------------------------------------------

TEXT = "3\t5\tb\tb\n5\t3\ta\ta\n5\t5\tb\tb\n3\n"
"""Starts in 3; (b b* a)* over a, b, and what is missing rejects."""


def test_an_acceptor_from_its_text() -> None:
    acceptor = acceptor_of(TEXT)
    assert acceptor.symbols == ("a", "b") and acceptor.n_states == 3
    for n in range(1, 7):
        for word in itertools.product("ab", repeat=n):
            text = "".join(word)
            assert acceptor.output(acceptor.encode(text))[-1] == (re.fullmatch("(b+a)*", text) is not None)


def test_languages_from_files(tmp_path) -> None:
    plain, packed = tmp_path / "one.att", tmp_path / "many.json.xz"
    plain.write_text(TEXT)
    packed.write_bytes(lzma.compress(json.dumps({"first": "0 0 x x\n0", "second": TEXT}).encode()))
    one = make_task("regular-language", file=str(plain))
    two = make_task("regular-language", file=str(packed), language="second")
    assert one.acceptor == two.acceptor == acceptor_of(TEXT)
    assert make_task("regular-language", regex="(b+a)*", letters="ab").acceptor == minimise(one.acceptor)
    with pytest.raises(UnknownNameError, match="Did you mean 'second'"):
        make_task("regular-language", file=str(packed), language="secund")
    with pytest.raises(UnknownNameError, match="first, second"):
        make_task("regular-language", file=str(packed))


@pytest.mark.parametrize(
    "text, message",
    [("0 1 a a\n0 2 a a\n1", "two transitions for 'a'"), ("0 x a a", "neither 'from to symbol"), ("1", "has no transition")],
)
def test_texts_without_an_acceptor(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        acceptor_of(text)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("tomita", {"grammar": 8}, "grammar must be one of 1 .. 7, got 8"),
        ("regular-language", {"regex": "a", "file": "x"}, "takes one language"),
        ("regular-language", {"language": "x"}, "no file is given"),
        ("regular-language", {"file": "no/such/file"}, "Cannot read the file of acceptors"),
        ("dyck", {"depth": 0}, "depth must be"),
    ],
)
def test_wrong_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_task(name, **options)
