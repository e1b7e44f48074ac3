"""The six tasks of MAD, against oracles that read a row from left to right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError
from statetrack.tasks import Batch, Task, fixed_set, make_task, stream

Oracle = Callable[[list[int], int], int]


def rows(batch: Batch) -> list[tuple[list[int], list[int], list[bool]]]:
    return [
        (inputs[:n].tolist(), targets[:n].tolist(), mask[:n].tolist())
        for inputs, targets, mask, n in zip(batch.inputs, batch.targets, batch.mask, batch.lengths.tolist(), strict=True)
    ]


def score(batch: Batch, oracle: Oracle) -> float:
    """Accuracy of an answer that sees the tokens up to the position that is asked."""
    right = [
        oracle(inputs[: at + 1], at) == target
        for inputs, targets, mask in rows(batch)
        for at, (target, asked) in enumerate(zip(targets, mask, strict=True))
        if asked
    ]
    return float(np.mean(right))


def last_value(tokens: list[int], at: int) -> int:
    """The token after the previous appearance of the last one, in slots of two."""
    earlier = [i for i in range(0, at, 2) if tokens[i] == tokens[at]]
    return tokens[earlier[-1] + 1] if earlier else -1


@pytest.mark.parametrize("name, options", [("in-context-recall", {}), ("noisy-recall", {}), ("noisy-recall", {"noise": 0.8})])
def test_recall_is_decided_by_what_was_shown(name: str, options: dict) -> None:
    task = make_task(f"mad-{name}", **options).held_out()
    batch = task.sample(200, 128, np.random.default_rng(0))
    assert batch.inputs.shape == (200, 127)
    assert score(batch, last_value) == task.ceiling == 1.0
    assert batch.mask[:, -1].all()
    n_keys = (task.vocab_size - task.n_noise) // 2
    usable = task.vocab_size - task.n_noise
    for inputs, targets, mask in rows(batch):
        shown: set[int] = set()
        for at in range(0, 127, 2):
            noisy = inputs[at] >= usable
            assert noisy or inputs[at] < n_keys
            assert at == 126 or ((inputs[at + 1] >= usable) == noisy and (noisy or inputs[at + 1] >= n_keys))
            assert mask[at] == (not noisy and inputs[at] in shown)
            shown |= {inputs[at]} - set(range(usable, task.vocab_size))
        assert not any(mask[1::2]) and all(n_keys <= t < usable for t, asked in zip(targets, mask, strict=True) if asked)


@pytest.mark.parametrize("vocab_size, length, expected", [(16, 128, 56), (128, 128, 23.6), (16, 1024, 504)])
def test_number_of_scored_positions_of_recall(vocab_size: int, length: int, expected: float) -> None:
    batch = make_task("mad-in-context-recall", vocab_size=vocab_size).held_out().sample(300, length, np.random.default_rng(1))
    assert batch.mask.sum(dim=1).double().mean().item() == pytest.approx(expected, abs=0.4)


def test_training_on_recall_asks_for_the_next_token_except_noise() -> None:
    batch = make_task("mad-noisy-recall", noise=0.4).sample(100, 64, np.random.default_rng(2))
    for inputs, targets, mask in rows(batch):
        assert mask == [following < 16 for following in [*inputs[1:], targets[-1]]]
        assert all(target == following for target, following, asked in zip(targets, inputs[1:], mask, strict=False) if asked)


def test_share_of_noise_and_its_protected_slot() -> None:
    batch = make_task("mad-noisy-recall", noise=0.8).sample(400, 12, np.random.default_rng(3))
    noisy = batch.inputs[:, :10:2] >= 16
    assert not noisy.all(dim=1).any()
    # Five slots of which each is the protected one with probability 1/6, given that not all of them are noise.
    p, q = 0.8, 1 / 6
    some = 1 - q * p**5
    expected = ((1 - q) * 4 * p + q * 5 * (p - p**5)) / 5 / some
    assert noisy.double().mean().item() == pytest.approx(expected, abs=0.02)


def read_pairs(tokens: list[int], first_value: int, pad: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Keys and values of a sequence: a key ends where values begin, and a value where the next key begins."""
    pairs: list[tuple[list[int], list[int]]] = []
    before = pad
    for token in (t for t in tokens if t != pad):
        if token < first_value and (before == pad or before >= first_value):
            pairs.append(([], []))
        pairs[-1][token >= first_value].append(token)
        before = token
    return [(tuple(key), tuple(value)) for key, value in pairs]


@pytest.mark.parametrize("vocab_size, length", [(16, 128), (32, 128), (16, 13)])
def test_fuzzy_recall(vocab_size: int, length: int) -> None:
    task = make_task("mad-fuzzy-recall", vocab_size=vocab_size).held_out()
    first_value, pad = (vocab_size - 1) // 2, vocab_size - 1
    n_scored = 0
    for inputs, targets, mask in rows(task.sample(300, length, np.random.default_rng(0))):
        text = [*inputs, targets[-1]]
        pairs = read_pairs(text, first_value, pad)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        expected: list[bool] = []
        for key, value in pairs:
            assert len(key) == len(set(key)) == 3 and len(value) == len(set(value)) <= 3
            assert known.get(key, value) == value
            expected += [False] * len(key) + [key in known] * len(value)
            n_scored += key in known
            known[key] = value
        n_pads = text.count(pad)
        assert text[:n_pads] == [pad] * n_pads
        assert [False] * (n_pads - 1) + expected[0 if n_pads else 1 :] == mask
        assert pairs[-1][0] in [key for key, _ in pairs[:-1]], "the probe was shown"
    if (vocab_size, length) == (16, 128):
        assert n_scored / 300 == pytest.approx(2.2, abs=0.15)


@pytest.mark.parametrize("vocab_size, rate, unpredictable", [(16, 0.022, 0.010), (32, 0.025, 0.023)])
def test_the_released_fuzzy_recall_forgets_the_probe_now_and_then(vocab_size: int, rate: float, unpredictable: float) -> None:
    task = make_task("mad-fuzzy-recall", vocab_size=vocab_size, released=True).held_out()
    assert task.ceiling is None
    batch = task.sample(8000, 128, np.random.default_rng(4))
    missing = scored = 0
    for inputs, targets, _ in rows(batch):
        pairs = read_pairs([*inputs, targets[-1]], (vocab_size - 1) // 2, vocab_size - 1)
        keys = [key for key, _ in pairs]
        missing += keys[-1] not in keys[:-1]
        scored += 1 + sum(key in keys[:i] for i, key in enumerate(keys[:-1]))
    assert missing / 8000 == pytest.approx(rate, abs=0.005)
    assert missing / scored == pytest.approx(unpredictable, abs=0.004)


def test_training_on_fuzzy_recall_has_keys_of_all_sizes() -> None:
    batch = make_task("mad-fuzzy-recall").sample(200, 60, np.random.default_rng(5))
    sizes = np.zeros(4)
    for inputs, targets, mask in rows(batch):
        for key, value in read_pairs([*inputs, targets[-1]], 7, 15):
            sizes[len(key)] += 1
            assert len(value) <= 3
        text = [*inputs, targets[-1]]
        assert mask == [token != 15 for token in text[1:]] and targets[:-1] == [
            t if m else 0 for t, m in zip(text[1:-1], mask, strict=False)
        ]
    assert np.abs(sizes[1:] / sizes.sum() - 1 / 3).max() < 0.04


def test_memorization_is_one_map_for_ever() -> None:
    task = make_task("mad-memorization", vocab_size=64, data_seed=3)
    batches = [task.sample(50, 32, np.random.default_rng(0)), task.held_out().sample(50, 32, np.random.default_rng(1))]
    known: dict[int, int] = {}
    for inputs, targets, mask in (row for batch in batches for row in rows(batch)):
        assert inputs[1::2] == [63] * 16 and mask == [False, True] * 16
        for key, value in zip(inputs[::2], targets[1::2], strict=True):
            assert key < 31 <= value < 63
            assert known.setdefault(key, value) == value
    assert len(known) == len(set(known.values())) == 31
    other = make_task("mad-memorization", vocab_size=64, data_seed=4)
    assert other.values.tolist() != task.values.tolist()


@pytest.mark.parametrize(
    "vocab_size, expected", [(256, 1.0), (512, 1.0), (1024, 1.0), (2048, 0.982), (4096, 0.865), (8192, 0.632)]
)
def test_ceiling_of_memorization(vocab_size: int, expected: float) -> None:
    tasks = [make_task("mad-memorization", vocab_size=vocab_size, n_examples=256, data_seed=seed) for seed in range(3)]
    ceilings = [task.ceiling_at(32) for task in tasks]
    assert np.mean(ceilings) == pytest.approx(expected, abs=0.005)
    task, held_out = tasks[0], tasks[0].held_out()
    assert task.ceiling is None and held_out.n_examples is None
    taught = {key for inputs, _, _ in rows(task.examples(32)) for key in inputs[::2]}
    known = score(
        held_out.sample(400, 32, np.random.default_rng(0)),
        lambda seen, at: task.values[seen[at - 1]] if seen[at - 1] in taught else -1,
    )
    assert known == pytest.approx(ceilings[0], abs=0.015)


def test_compression_asks_for_everything_again() -> None:
    task = make_task("mad-compression")
    batch = task.sample(300, np.array([20] * 150 + [7] * 150), np.random.default_rng(0))
    for inputs, targets, mask in rows(batch):
        assert inputs == targets and all(mask) and inputs[-1] == 15 and max(inputs[:-1]) < 15
    counts = np.bincount(batch.inputs[:150, :19].ravel().numpy(), minlength=15)
    assert np.abs(counts / counts.sum() - 1 / 15).max() < 0.01
    assert task.read_at == "last"


@pytest.mark.parametrize("n_tokens, length", [(16, 256), (2, 9), (1, 3)])
def test_selective_copying(n_tokens: int, length: int) -> None:
    task = make_task("mad-selective-copying", n_tokens=n_tokens).held_out()
    batch = task.sample(500, length, np.random.default_rng(0))

    def oracle(seen: list[int], at: int) -> int:
        data = [token for token in seen[: seen.index(15)] if token != 14]
        return data[at - seen.index(15) - 1]

    assert score(batch, oracle) == task.ceiling == 1.0
    for inputs, _, mask in rows(batch):
        assert mask == [False] * (length - n_tokens) + [True] * n_tokens
        assert inputs[length - n_tokens - 1 :] == [15] + [14] * n_tokens
        assert inputs[length - n_tokens - 2] < 14, "no blank after the last datum"
        assert sum(token < 14 for token in inputs) == n_tokens
    if n_tokens == 2:  # four blanks, each before either datum with probability 1/2
        leading = [next(i for i, token in enumerate(inputs) if token < 14) for inputs, _, _ in rows(batch)]
        assert np.mean(leading) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    "name", ["in-context-recall", "noisy-recall", "fuzzy-recall", "memorization", "compression", "selective-copying"]
)
def test_a_limited_training_set_and_fresh_tests(name: str) -> None:
    length = 40
    task = make_task(f"mad-{name}", n_examples=5)
    seen = {tuple(row) for step in range(30) for row in task.sample(8, length, stream(0, "train", step)).inputs.tolist()}
    assert len(seen) == 5
    mixed = task.sample(6, np.array([40, 44, 40, 42, 44, 40]), stream(0, "train", 0))
    assert len(set(mixed.lengths.tolist())) == 3
    assert all(
        tuple(row[: len(next(iter(seen)))]) in seen
        for row, n in zip(mixed.inputs.tolist(), mixed.lengths, strict=True)
        if n == mixed.lengths.min()
    )
    again = make_task(f"mad-{name}", n_examples=5).sample(8, length, stream(0, "train", 0))
    assert torch.equal(again.inputs, task.sample(8, length, stream(0, "train", 0)).inputs)
    tests = [tuple(row) for batch in fixed_set(task, 64, length, length, 0, "test", 16) for row in batch.inputs.tolist()]
    assert len(set(tests)) == 64 and not set(tests) & seen
    assert (
        make_task(f"mad-{name}", n_examples=5, data_seed=1).sample(8, length, stream(0, "train", 0)).inputs.tolist()
        != again.inputs.tolist()
    )


def test_tasks_without_a_limit_are_their_own_held_out_form() -> None:
    parity: Task = make_task("parity")
    assert parity.held_out() is parity and parity.ceiling_at(7) == parity.ceiling == 1.0


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("in-context-recall", {"noise": 0.5}, "needs ids for it"),
        ("noisy-recall", {"noise": 1.0}, "leave some pairs"),
        ("noisy-recall", {"noise": 1.5}, "noise must be a number from 0 to 1, got 1.5"),
        ("noisy-recall", {"vocab_size": 17}, "vocab_size must be a whole number of at least 18"),
        ("compression", {"n_examples": 0}, "n_examples must be"),
        ("fuzzy-recall", {"vocab_size": 6}, "vocab_size must be"),
    ],
)
def test_wrong_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_task(f"mad-{name}", **options)
