"""Tasks that can be taught from a limited set of examples, and are tested on fresh ones."""

from __future__ import annotations

import copy
from abc import abstractmethod

import numpy as np

from statetrack.tasks.base import Batch, Task
from statetrack.tasks.checks import row_lengths, whole_number
from statetrack.tasks.layout import IntArray, batch_of


class ExampleTask(Task):
    """A task whose training may be confined to ``n_examples`` sequences of each length.

    The examples of a length are drawn once, from ``data_seed`` and the length, and batches pick from them uniformly with
    replacement. Held-out sequences are always fresh, and ``testing`` is true for the task that makes them.

    Args:
        n_examples: number of training examples of each length; None draws fresh ones for ever.
        data_seed: seed of the examples.
    """

    def __init__(self, n_examples: int | None, data_seed: int) -> None:
        self.n_examples = None if n_examples is None else whole_number("n_examples", n_examples, low=1)
        self.data_seed = whole_number("data_seed", data_seed, low=0)
        self.testing = False
        self._sets: dict[int, Batch] = {}

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = self.round_lengths(row_lengths(self, batch_size, length))
        if self.n_examples is None:
            return self.draw(lengths, generator)
        picked = generator.integers(0, self.n_examples, size=batch_size)
        width = max(self.examples(int(each)).inputs.shape[1] for each in np.unique(lengths))
        inputs, targets = (np.zeros((batch_size, width), dtype=np.int64) for _ in range(2))
        mask, n_tokens = np.zeros((batch_size, width), dtype=bool), np.zeros(batch_size, dtype=np.int64)
        for each in np.unique(lengths):
            rows, known = np.flatnonzero(lengths == each), self.examples(int(each))
            columns = slice(0, known.inputs.shape[1])
            inputs[rows, columns] = known.inputs.numpy()[picked[rows]]
            targets[rows, columns] = known.targets.numpy()[picked[rows]]
            mask[rows, columns] = known.mask.numpy()[picked[rows]]
            n_tokens[rows] = known.lengths.numpy()[picked[rows]]
        return batch_of(inputs, targets, mask, n_tokens, self.padding)

    def examples(self, length: int) -> Batch:
        """All training examples of one length. The length is one that ``round_lengths`` gives."""
        if self.n_examples is None:
            raise ValueError("The task has no limited set of examples.")
        if length not in self._sets:
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.data_seed, spawn_key=(length,))))
            self._sets[length] = self.draw(np.full(self.n_examples, length, dtype=np.int64), generator)
        return self._sets[length]

    def held_out(self) -> ExampleTask:
        task = copy.copy(self)
        task.n_examples, task.testing = None, True
        return task

    def round_lengths(self, lengths: IntArray) -> IntArray:
        """The lengths that are made in place of those asked for."""
        return lengths

    @abstractmethod
    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Batch:
        """Fresh sequences, one for each length."""


def even(lengths: IntArray) -> IntArray:
    """Lengths rounded up to even ones."""
    return lengths + lengths % 2
