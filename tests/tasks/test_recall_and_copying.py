"""Recall, copying and memory of one bit, against oracles that read a row from left to right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.tasks import Batch, make_task
from statetrack.tasks.copying import ambiguous_share, capacity_bits


def asked(batch: Batch) -> Iterator[tuple[list[int], int, int]]:
    """What was read up to a label, its place and its class."""
    for inputs, targets, mask, n in zip(batch.inputs, batch.targets, batch.mask, batch.lengths.tolist(), strict=True):
        assert not mask[n:].any()
        for at in mask.nonzero().flatten().tolist():
            yield inputs[: at + 1].tolist(), at, int(targets[at])


# -- MQAR ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"passes": 3}, {"n_updates": 2}, {"n_pairs": 1}, {"n_pairs": 8, "vocab_size": 18}, {"n_updates": 4, "passes": 2}],
)
def test_a_dictionary_answers_mqar(options: dict) -> None:
    task = make_task("mqar", **{"vocab_size": 64, **options})
    lengths = np.array([task.min_length, 64, 80] * 20)
    batch = task.sample(60, lengths, np.random.default_rng(0))
    n_labels = 0
    for seen, at, target in asked(batch):
        known = dict(zip(seen[: task.context : 2], seen[1 : task.context : 2], strict=True))
        assert len(known) == task.n_pairs and at >= task.context and at % 2 == 0
        assert known[seen[-1]] == target >= task.first_value
        n_labels += 1
    assert n_labels == 60 * task.n_pairs and task.ceiling == 1.0
    for row in batch.inputs.tolist():
        context, rest = row[: task.context], row[task.context :]
        keys = context[: 2 * task.n_pairs : 2]
        assert sorted(token for token in rest if token) == sorted(keys), "each key is asked for once, the rest is filled with 0"
        assert 0 not in keys and max(keys) < task.first_value
        assert context[: 2 * task.n_pairs * task.passes] == context[: 2 * task.n_pairs] * task.passes


def test_an_update_is_never_the_old_value() -> None:
    task = make_task("mqar", vocab_size=8, n_pairs=3, n_updates=3)
    stale = fresh = 0
    for row in task.sample(400, 40, np.random.default_rng(1)).inputs.tolist():
        old, new = dict(zip(row[0:6:2], row[1:6:2], strict=True)), dict(zip(row[6:12:2], row[7:12:2], strict=True))
        assert old.keys() == new.keys() and all(old[key] != new[key] for key in old)
        stale, fresh = stale + 1, fresh + len(set(new.values()))
    assert fresh > stale


@pytest.mark.parametrize("power", [0.01, 0.5, 1.0])
def test_places_of_questions_follow_the_power_law(power: float) -> None:
    task = make_task("mqar", vocab_size=16, n_pairs=1, power=power)
    n_slots, n = 7, 20_000
    batch = task.sample(n, 2 + 2 * n_slots, np.random.default_rng(2))
    counts = batch.mask[:, 2::2].sum(dim=0).numpy()
    weights = np.arange(1, n_slots + 1.0) ** (power - 1)
    assert np.abs(counts / n - weights / weights.sum()).max() < 4 * np.sqrt(0.25 / n)


def test_two_questions_are_drawn_without_replacement() -> None:
    task = make_task("mqar", vocab_size=16, n_pairs=2, power=0.5)
    n, weights = 30_000, np.arange(1, 5.0) ** -0.5
    batch = task.sample(n, 12, np.random.default_rng(3))
    first_key = batch.inputs[:, 0]
    places = {
        key: (batch.inputs[:, 4::2] == which[:, None]).int().argmax(dim=1).numpy()
        for key, which in (("first", first_key), ("second", batch.inputs[:, 2]))
    }
    expected = np.zeros((4, 4))
    for i in range(4):
        for j in set(range(4)) - {i}:
            expected[i, j] = weights[i] / weights.sum() * weights[j] / (weights.sum() - weights[i])
    found = np.zeros((4, 4))
    np.add.at(found, (places["first"], places["second"]), 1 / n)
    assert np.abs(found - expected).max() < 0.012


def test_the_published_example_of_mqar_has_this_form() -> None:
    row = [2, 11, 4, 13, 0, 0, 4, 0, 0, 0, 0, 0, 2, 0, 0, 0]
    batch = make_task("mqar", vocab_size=18, n_pairs=2).sample(4000, 16, np.random.default_rng(4))
    matches = (batch.inputs[:, 6] == batch.inputs[:, 2]) & (batch.inputs[:, 12] == batch.inputs[:, 0])
    assert matches.any()
    for inputs, targets, mask in zip(batch.inputs[matches], batch.targets[matches], batch.mask[matches], strict=True):
        names = dict(zip([0, *inputs[:4].tolist()], [0, *row[:4]], strict=True))
        assert [names[token] for token in inputs.tolist()] == row
        assert mask.nonzero().flatten().tolist() == [6, 12] and [names[value] for value in targets[mask].tolist()] == [13, 11]


def test_random_fillers_cover_the_vocabulary() -> None:
    task = make_task("mqar", vocab_size=16, n_pairs=2, random_fillers=True)
    batch = task.sample(200, 32, np.random.default_rng(5))
    assert task.ceiling is None and set(batch.inputs[:, 8:].flatten().tolist()) == set(range(16))


# -- selective copying, induction heads -----------------------------------------------------------------------------------------


def test_a_queue_answers_selective_copying() -> None:
    task = make_task("selective-copying", vocab_size=6, n_tokens=4)
    lengths = np.array([4, 9, 30] * 40)
    batch = task.sample(120, lengths, np.random.default_rng(0))
    assert batch.lengths.tolist() == (lengths + 4).tolist() and int(batch.mask.sum()) == 480
    for seen, _, target in asked(batch):
        queue = [token for token in seen if token < 5]
        assert len(queue) == 4 and queue[seen.count(task.question) - 1] == target


def test_the_data_stand_at_uniform_places() -> None:
    task = make_task("selective-copying", n_tokens=3)
    n = 12_000
    batch = task.sample(n, 8, np.random.default_rng(1))
    data = batch.inputs[:, :8] < 15
    share = data.double().mean(dim=0)
    assert (share - 3 / 8).abs().max() < 4 * np.sqrt(0.25 / n)
    sets, counts = np.unique(data.numpy() @ 2 ** np.arange(8), return_counts=True)
    assert sets.size == 56 and np.abs(counts - n / 56).max() < 5 * np.sqrt(n / 56)


@pytest.mark.parametrize("length", [3, 16, 300])
def test_the_successor_answers_induction_heads(length: int) -> None:
    task = make_task("induction-heads")
    batch = task.sample(60, length, np.random.default_rng(0))
    assert int(batch.mask.sum()) == 60
    for seen, at, target in asked(batch):
        assert at == length - 1 and seen[-1] == 15 and seen.count(15) == 2
        assert target == seen[seen.index(15) + 1]


# -- copying --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"repeats": 2, "part": 2}])
def test_copying_gives_the_string_and_a_full_stop(options: dict) -> None:
    task = make_task("copying", **options)
    lengths = np.array([5, 12, 9] * 10)
    batch = task.sample(30, lengths, np.random.default_rng(0))
    assert batch.lengths.tolist() == (2 * lengths + 2).tolist() and int(batch.mask.sum()) == int((lengths + 1).sum())
    for seen, at, target in asked(batch):
        bar = seen.index(27)
        string = [*seen[1:bar], 28]
        assert seen[0] == 26 and target == string[at - bar] and seen[bar + 1 :] == string[: at - bar]


def test_a_lookup_gives_the_letter_after_the_first_appearance() -> None:
    task = make_task("copying", question="lookup", part=2)
    batch = task.sample(300, np.array([3, 40, 200] * 100), np.random.default_rng(1))
    for seen, _, target in asked(batch):
        string, part = seen[1 : seen.index(27)], seen[seen.index(27) + 1 :]
        places = [i for i in range(len(string) - 2) if string[i : i + 2] == part]
        assert target == string[places[0] + 2]


def test_repeats_make_looking_up_ambiguous() -> None:
    plain, repeated = (
        make_task("copying", repeats=repeats, part=3).sample(200, 20, np.random.default_rng(2)) for repeats in (0, 3)
    )
    shares = [ambiguous_share(batch.inputs[:, 1:21].numpy(), 3) for batch in (plain, repeated)]
    assert shares[0] < 0.002
    for string in repeated.inputs[:, 1:21].tolist():
        parts = [tuple(string[i : i + 3]) for i in range(18)]
        assert max(parts.count(part) for part in parts) >= 3
    # Three copies have a letter after them unless one stands at the end, and these letters hardly ever agree.
    assert shares[1] == pytest.approx(3 / 17, abs=0.03)
    assert capacity_bits(1) == pytest.approx(np.log2(26))


# -- flip-flop ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignore", [0.0, 0.1, 0.8, 1.0])
def test_flip_flop_remembers_the_last_write(ignore: float) -> None:
    task = make_task("flip-flop", ignore=ignore)
    batch = task.sample(200, np.array([4, 51, 64, 20] * 50), np.random.default_rng(0))
    kinds = np.zeros(5)
    for row, n in zip(batch.inputs.tolist(), batch.lengths.tolist(), strict=True):
        assert n % 2 == 0 and row[0] == 2 and row[n - 2] == 3
        kinds += np.bincount(row[2 : n - 2 : 2], minlength=5)[:5]
        written = None
        for kind, bit in zip(row[:n:2], row[1:n:2], strict=True):
            written = bit if kind == 2 else written
            assert kind != 3 or bit == written
    n_reads = 0
    for seen, at, target in asked(batch):
        writes = [seen[i + 1] for i in range(0, at, 2) if seen[i] == 2]
        assert seen[-1] == 3 and writes[-1] == target
        n_reads += 1
    assert n_reads == int(kinds[3]) + 200
    assert kinds[4] / kinds.sum() == pytest.approx(ignore, abs=0.03)
    assert kinds[2] / kinds.sum() == pytest.approx((1 - ignore) / 2, abs=0.03)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("mqar", {"vocab_size": 8, "n_pairs": 4}, "vocab_size 8 has 3 keys, but n_pairs is 4"),
        ("mqar", {"n_updates": 5}, "n_updates must be at most n_pairs"),
        ("mqar", {"power": 0}, "power must be a positive number"),
        ("flip-flop", {"ignore": -0.1}, "ignore must be a number from 0 to 1, got -0.1"),
        ("copying", {"repeats": 1}, "repeats must be 0 or at least 2"),
        ("selective-copying", {"vocab_size": 1}, "vocab_size must be"),
        ("induction-heads", {"vocab_size": True}, "vocab_size must be"),
    ],
)
def test_wrong_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_task(name, **options)
