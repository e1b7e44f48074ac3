"""Flip-flop language: a memory of one bit, written, read and left alone.

    w 1  i 0  i 1  r 1  w 0  r 0      target at each r: the bit that was written last

Source: Exposing Attention Glitches with Flip-Flop Language Modeling (arXiv 2306.00946).
"""

from __future__ import annotations

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import row_lengths, share
from statetrack.tasks.example_set import even
from statetrack.tasks.layout import batch_of

WRITE, READ, IGNORE = 2, 3, 4
"""Token ids of the instructions; 0 and 1 are the bits."""

# State 2 m + p: the memory holds m, and p says whether the next bit is to be written.
_TRANSITIONS = np.array(((0, 0, 1, 0, 0, 0), (0, 2, 1, 0, 0, 1), (2, 2, 3, 2, 2, 2), (0, 2, 3, 2, 2, 3)))


@register("flip-flop")
class FlipFlop(Task):
    """The bit written last, at every read.

    Instructions come in pairs with a bit: the first is a write, the last a read, those in between are drawn independently.
    Bits after writes and ignored instructions are uniform. Lengths count tokens and are rounded up to even.

    Args:
        ignore: probability of an ignored instruction; writes and reads share the rest equally. Published sets have 0.8
            (training), 0.98 (sparse) and 0.1 (dense).

    >>> batch = FlipFlop(ignore=0.5).sample(1, 10, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[2, 1, 3, 1, 4, 0, 3, 1, 3, 1]], [1, 1, 1])
    """

    summary = "the bit that was written last, at every read"
    source = "arXiv 2306.00946"

    def __init__(self, *, ignore: float = 0.8) -> None:
        self.ignore = share("ignore", ignore)
        self.vocab_size, self.n_classes, self.padding, self.chance = 6, 2, 5, 0.5
        self.min_length = 4
        self.automaton = Automaton(_TRANSITIONS, np.array((0, 0, 1, 1)))

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = even(row_lengths(self, batch_size, length))
        shape = batch_size, int(lengths.max()) // 2
        rows, places = np.arange(batch_size), np.arange(shape[1])
        drawn = generator.random(shape)
        kinds = np.where(drawn < self.ignore, IGNORE, np.where(drawn < (1 + self.ignore) / 2, WRITE, READ))
        kinds[:, 0], kinds[rows, lengths // 2 - 1] = WRITE, READ
        bits = generator.integers(0, 2, size=shape, dtype=np.int64)
        last_write = np.maximum.accumulate(np.where(kinds == WRITE, places, 0), axis=1)
        stored = np.take_along_axis(bits, last_write, axis=1)
        bits = np.where(kinds == READ, stored, bits)
        inputs, targets = np.stack((kinds, bits), axis=2), np.stack((stored, stored), axis=2)
        asked = np.stack((kinds == READ, np.zeros(shape, dtype=bool)), axis=2)
        flat = batch_size, 2 * shape[1]
        return batch_of(inputs.reshape(flat), targets.reshape(flat), asked.reshape(flat), lengths, self.padding)
