"""Random automata in context: legality, walks and the best that can be done."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.tasks import make_task
from statetrack.tasks.regbench import RegBench, best_share, legal_share


def test_machines_are_trimmed_minimal_and_of_the_sizes_asked_for() -> None:
    task, generator = RegBench(), np.random.default_rng(0)
    sizes, edges, symbols = [], [], []
    for _ in range(200):
        table = task.random_machine(generator)
        sizes.append(len(table))
        edges += (table >= 0).sum(axis=1).tolist()
        symbols.append(int((table >= 0).any(axis=0).sum()))
        reached, frontier = {0}, [0]
        while frontier:
            following = {int(q) for q in table[frontier.pop()] if q >= 0} - reached
            reached, frontier = reached | following, [*frontier, *following]
        assert reached == set(range(len(table)))
        # Minimal: refining by what is legal, then by where it leads, tells all states apart.
        blocks = [tuple((row >= 0).tolist()) for row in table]
        for _ in range(len(table)):
            blocks = [(blocks[q], tuple(blocks[r] if r >= 0 else None for r in row)) for q, row in enumerate(table.tolist())]
            names = {block: i for i, block in enumerate(dict.fromkeys(blocks))}
            blocks = [names[block] for block in blocks]
        assert len(set(blocks)) == len(table)
    assert max(sizes) <= 12 and min(sizes) >= 1 and set(edges) == {1, 2, 3} and max(symbols) <= 18


def test_strings_are_walks_and_ends_are_not_asked() -> None:
    task = RegBench(n_symbols=6, string_length=5)
    lengths = np.array([30, 12, 1] * 10)
    batch, legal = task.sample_legal(30, lengths, np.random.default_rng(1))
    assert legal_share(batch.targets.numpy(), batch.mask.numpy(), legal) == 1.0
    ends = 0
    for inputs, targets, mask, allowed, n in zip(
        batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), legal, lengths.tolist(), strict=True
    ):
        assert inputs[0] == task.separator and batch.mask.shape[1] == 30
        strings = "".join("|" if token == 6 else "x" for token in inputs[:n]).split("|")[1:]
        assert all(1 <= len(string) <= 5 for string in strings[:-1])
        after: dict[tuple[int, ...], list[bool]] = {}
        string: tuple[int, ...] = ()
        for at in range(n):
            string = () if inputs[at] == 6 else (*string, inputs[at])
            # Legality belongs to the automaton, so it is the same wherever the same string has been read.
            assert after.setdefault(string, allowed[at].tolist()) == allowed[at].tolist()
            follows = inputs[at + 1] if at + 1 < n else None
            assert mask[at] == (follows != 6) or follows is None
            ends += not mask[at]
            assert not mask[at] or (allowed[at][targets[at]] and follows in (None, targets[at]))
    assert ends


def test_who_knows_the_automaton_scores_the_best_share() -> None:
    task = RegBench()
    batch, legal = task.sample_legal(200, 200, np.random.default_rng(2))
    mask = batch.mask.numpy()
    best = best_share(mask, legal)
    guesses = np.where(legal, np.random.default_rng(3).random(legal.shape), -1.0).argmax(axis=2)
    assert (guesses == batch.targets.numpy())[mask].mean() == pytest.approx(best, abs=0.01)
    assert 1 / 3 < best < 1 and task.ceiling is None
    anything = np.random.default_rng(4).integers(0, 18, size=mask.shape)
    assert (anything == batch.targets.numpy())[mask].mean() == pytest.approx(task.chance, abs=0.01)


def test_every_sequence_has_an_automaton_of_its_own() -> None:
    batch, legal = RegBench().sample_legal(40, 2, np.random.default_rng(5))
    assert len({tuple(row) for row in legal[:, 0].tolist()}) > 35
    assert batch.inputs[:, 0].tolist() == [18] * 40


def test_wrong_options() -> None:
    with pytest.raises(InvalidInputError, match="n_edges must be at most 3"):
        make_task("regbench", n_edges=4)
