"""Reproducible randomness: one generator for each seed, split and step, and fixed evaluation sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task
from statetrack.tasks.checks import one_of, whole_number
from statetrack.tasks.layout import IntArray

Split: TypeAlias = Literal["train", "validation", "test"]
_TOKENS_AT_ONCE = 1 << 24
_SPLIT_IDS: dict[Split, int] = {"train": 0, "validation": 1, "test": 2}


def stream(seed: int, split: Split, index: int = 0) -> np.random.Generator:
    """The generator of one step of one split.

    Every triple has a generator of its own, so splits never share data, and any number of workers that divide the indices
    among them make the same data.

    Args:
        seed: seed of the run, below 2**64.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        index: number of the step or batch, below 2**64.

    Raises:
        InvalidInputError: a seed or index that is negative or too large.
        UnknownNameError: another split.

    >>> int(stream(0, "train", 7).integers(1000)), int(stream(0, "test", 7).integers(1000))
    (922, 35)
    """
    one_of("split", split, _SPLIT_IDS)
    # Each number takes a fixed count of 32-bit words: lists of other lengths could run into each other.
    words = [*_two_words("seed", seed), _SPLIT_IDS[split], *_two_words("index", index)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def _two_words(name: str, value: int) -> tuple[int, int]:
    value = whole_number(name, value, low=0)
    if value >= 1 << 64:
        raise InvalidInputError(f"{name} must be below 2**64, got {value}.")
    return value & 0xFFFFFFFF, value >> 32


def uniform_lengths(batch_size: int, low: int, high: int, generator: np.random.Generator) -> IntArray:
    """``(batch_size,)`` lengths, uniform in ``low .. high`` with both ends.

    Raises:
        InvalidInputError: an empty range, or a batch without rows.
    """
    whole_number("batch_size", batch_size, low=1)
    whole_number("high", high, low=whole_number("low", low, low=0))
    return generator.integers(low, high + 1, size=batch_size, dtype=np.int64)


def fixed_set(task: Task, n: int, low: int, high: int, seed: int, split: Split, batch_size: int) -> Iterator[Batch]:
    """An evaluation set of ``n`` rows with uniform lengths in ``low .. high``, the same rows for every ``batch_size``.

    Validation and test rows are those of ``task.held_out()``.

    The shortest rows come first, so that batches hold little padding. Rows are made when they are asked for, as many at a time as
    fit into a few hundred megabytes, so that very long ones can be tested too.

    Raises:
        InvalidInputError: lengths that the task cannot make, an empty range, or sizes below 1.
    """
    batch_size = whole_number("batch_size", batch_size, low=1)
    generator = stream(seed, split)
    task = task if split == "train" else task.held_out()
    lengths = np.sort(uniform_lengths(n, low, high, generator))
    at_once = max(1, _TOKENS_AT_ONCE // max(1, high))
    return _batches(task, lengths, generator, batch_size, at_once)


def _batches(task: Task, lengths: IntArray, generator: np.random.Generator, batch_size: int, at_once: int) -> Iterator[Batch]:
    for begin in range(0, len(lengths), at_once):
        part = lengths[begin : begin + at_once]
        rows = task.sample(len(part), part, generator)
        for first in range(0, len(part), batch_size):
            yield _rows(rows, first, min(first + batch_size, len(part)))


def _rows(batch: Batch, first: int, last: int) -> Batch:
    lengths = batch.lengths[first:last]
    width = int(lengths.max())
    inputs, targets, mask = (tensor[first:last, :width].clone() for tensor in (batch.inputs, batch.targets, batch.mask))
    return Batch(inputs, targets, mask, lengths.clone())
