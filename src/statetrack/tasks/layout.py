"""How a published format writes a word and its answer as token and class ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from statetrack.automata.automaton import Automaton
from statetrack.tasks.base import Batch

Format: TypeAlias = Literal["slice", "xlstm", "chomsky"]
FORMATS: tuple[str, ...] = get_args(Format)
IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """One format of one task; the task itself thinks in symbols ``0, 1, ...`` and values ``0, 1, ...``.

    Attributes:
        symbols: token id of each symbol of a word.
        vocab_size: number of token ids, with those that only fill or end a sequence.
        n_classes: number of class ids.
        first_class: class id of value 0; value ``v`` is class ``first_class + v``.
        closing: token after the word, at which the answer is read (``=`` or the empty symbol); None: at the last symbol.
        padding: token right of a sequence that is shorter than the others of its batch.
        overhead: places that a length of this format counts beside the word (the closing token, the answer slot).
    """

    symbols: tuple[int, ...]
    vocab_size: int
    n_classes: int
    first_class: int
    closing: int | None = None
    padding: int = 0
    overhead: int = 0

    def automaton(self, transitions: npt.ArrayLike, values: npt.ArrayLike, start: int = 0) -> Automaton:
        """The machine over token ids for one given over symbols; a token that is no symbol leaves the state as it is.

        Args:
            transitions: ``(n_states, n_symbols)`` next state.
            values: ``(n_states,)`` value told in each state.
            start: the state before the first symbol.
        """
        transitions = np.asarray(transitions, dtype=np.int64)
        over_tokens = np.repeat(np.arange(len(transitions), dtype=np.int64)[:, None], self.vocab_size, axis=1)
        over_tokens[:, self.symbols] = transitions
        return Automaton(over_tokens, np.asarray(values, dtype=np.int64) + self.first_class, start)

    def batch(self, words: IntArray, values: IntArray, word_lengths: IntArray) -> Batch:
        """Writes words and answers as ids.

        Args:
            words: ``(B, W)`` symbols; what lies right of a word does not matter.
            values: ``(B,)`` the answer of each word.
            word_lengths: ``(B,)`` number of symbols of each word; the largest is ``W``.
        """
        batch_size, width = words.shape
        rows = np.arange(batch_size)
        lengths = word_lengths if self.closing is None else word_lengths + 1
        inputs = np.full((batch_size, width + (self.closing is not None)), self.padding, dtype=np.int64)
        inputs[:, :width] = np.asarray(self.symbols, dtype=np.int64)[words]
        inputs[np.arange(inputs.shape[1]) >= word_lengths[:, None]] = self.padding
        if self.closing is not None:
            inputs[rows, word_lengths] = self.closing
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        targets[rows, lengths - 1] = values + self.first_class
        mask[rows, lengths - 1] = True
        return Batch(*(torch.from_numpy(array) for array in (inputs, targets, mask, lengths)))


def batch_of(inputs: IntArray, targets: IntArray, mask: npt.NDArray[np.bool_], lengths: IntArray, padding: int) -> Batch:
    """A batch from arrays ``(B, W)`` in which what lies right of a row's length, and targets off the mask, do not matter.

    Args:
        inputs: token ids.
        targets: class ids.
        mask: where they are asked for.
        lengths: ``(B,)`` number of tokens of each row; columns beyond the longest are cut off.
        padding: token right of a row.
    """
    width = int(lengths.max())
    inside = np.arange(width) < lengths[:, None]
    mask = mask[:, :width] & inside
    arrays = np.where(inside, inputs[:, :width], padding), np.where(mask, targets[:, :width], 0), mask, lengths
    return Batch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
