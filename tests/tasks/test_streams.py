"""Generators for each seed, split and index, and fixed evaluation sets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks import fixed_set, make_task, stream, uniform_lengths


def first_numbers(*key) -> tuple[int, ...]:
    return tuple(stream(*key).integers(2**62, size=3).tolist())


def test_a_stream_is_fixed_for_all_time() -> None:
    assert stream(0, "train", 0).integers(0, 1000, size=5, dtype=np.int64).tolist() == [802, 942, 5, 316, 758]
    last = stream(2**64 - 1, "test", 2**64 - 1)
    assert last.integers(0, 1000, size=5, dtype=np.int64).tolist() == [348, 505, 404, 284, 416]


def test_numbers_of_more_than_32_bits_do_not_run_into_each_other() -> None:
    numbers, splits = (0, 1, 2**32, 2**32 + 1, 2**33), ("train", "validation", "test")
    keys = list(itertools.product(numbers, splits, numbers))
    assert len({first_numbers(*key) for key in keys}) == len(keys)


def test_any_number_of_workers_makes_the_same_data() -> None:
    task = make_task("parity")
    one = [task.sample(4, 9, stream(3, "train", step)).inputs for step in range(6)]
    two = {step: task.sample(4, 9, stream(3, "train", step)).inputs for worker in (1, 0) for step in range(worker, 6, 2)}
    assert all(torch.equal(one[step], two[step]) for step in range(6))


def test_lengths_are_uniform_with_both_ends() -> None:
    lengths = uniform_lengths(30_000, 3, 8, np.random.default_rng(0))
    counts = np.bincount(lengths, minlength=9)
    assert lengths.dtype == np.int64 and counts[:3].sum() == 0
    assert np.abs(counts[3:] - 5000).max() < 5 * np.sqrt(5000)


@pytest.mark.parametrize("name", ["parity", "modular-arithmetic", "modular-arithmetic-brackets", "automaton"])
def test_a_fixed_set_does_not_depend_on_the_batch_size(name: str) -> None:
    task = make_task(name)
    sets = [list(fixed_set(task, 50, 3, 20, seed=1, split="test", batch_size=size)) for size in (1, 7, 50, 64)]
    assert [len(batches) for batches in sets] == [50, 8, 1, 1]

    def rows(batches):
        fields = ((b.inputs[i], b.targets[i], b.mask[i], int(b.lengths[i])) for b in batches for i in range(len(b.lengths)))
        return [(inputs[:n].tolist(), targets[:n].tolist(), mask[:n].tolist()) for inputs, targets, mask, n in fields]

    assert all(rows(batches) == rows(sets[0]) for batches in sets[1:])
    lengths = torch.cat([batch.lengths for batch in sets[1]])
    assert (lengths.diff() >= 0).all()
    assert all(batch.inputs.shape[1] == int(batch.lengths.max()) for batch in sets[1])


def test_fixed_sets_of_the_splits_differ() -> None:
    sets = [
        next(fixed_set(make_task("parity"), 30, 20, 40, 1, split, batch_size=30)) for split in ("train", "validation", "test")
    ]
    rows = [{tuple(row) for row in batch.inputs.tolist()} for batch in sets]
    assert not rows[0] & rows[1] and not rows[0] & rows[2] and not rows[1] & rows[2]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: stream(-1, "train", 0), "seed must be a whole number of at least 0"),
        (lambda: stream(0, "train", 2**64), "index must be below"),
        (lambda: stream(0, "valid", 0), "Did you mean 'validation'"),
        (lambda: uniform_lengths(4, 9, 3, np.random.default_rng(0)), "high must be a whole number of at least 9"),
        (lambda: uniform_lengths(0, 3, 9, np.random.default_rng(0)), "batch_size must be"),
        (lambda: fixed_set(make_task("parity"), 4, 3, 9, 0, "test", 0), "batch_size must be"),
        (lambda: next(fixed_set(make_task("parity"), 4, 0, 0, 0, "test", 2)), "Length 0 was asked of task 'parity'"),
    ],
)
def test_wrong_arguments(call, message: str) -> None:
    with pytest.raises((InvalidInputError, UnknownNameError), match=message):
        call()


def test_long_rows_are_made_a_few_at_a_time(monkeypatch):
    task = make_task("parity")
    sampled = []
    real = type(task).sample
    monkeypatch.setattr(type(task), "sample", lambda self, n, *rest: sampled.append(n) or real(self, n, *rest))
    monkeypatch.setattr("statetrack.tasks.streams._TOKENS_AT_ONCE", 1000)
    sets = [list(fixed_set(task, 8, 300, 300, 1, "test", size)) for size in (2, 5)]
    assert sampled == [3, 3, 2] * 2
    rows = [torch.cat([batch.inputs for batch in batches]) for batches in sets]
    assert torch.equal(*rows)
    assert len(torch.unique(rows[0], dim=0)) == 8
    assert next(fixed_set(task, 8, 300, 300, 1, "test", 2)).inputs.shape == (2, 300)
