"""What a task is: a generator of labelled token sequences, with its exact automaton where it has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch

from statetrack.automata.automaton import Automaton
from statetrack.registry import Registry

tasks: Registry[type[Task]] = Registry("task", "statetrack.tasks")


def register(name: str) -> Callable[[type[Task]], type[Task]]:
    """Class decorator that makes a task known to the library and the command line under ``name``."""
    return tasks.register(name)


class Batch(NamedTuple):
    """Sequences of one batch, right-padded to a common length.

    Attributes:
        inputs: ``(B, L)`` int64 token ids; padding holds ``Task.padding``.
        targets: ``(B, L)`` int64 class ids; 0 where ``mask`` is false.
        mask: ``(B, L)`` bool, true at the positions that are labelled and scored.
        lengths: ``(B,)`` int64, number of input tokens of each row.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


class Task(ABC):
    """A source of labelled sequences.

    A subclass names its options in ``__init__`` (all keyword-only, with defaults) and sets the attributes below.
    """

    vocab_size: int
    n_classes: int
    padding: int = 0
    chance: float
    automaton: Automaton | None = None
    """The exact automaton over the input tokens: its output after the last token read equals the target there."""
    ceiling: float | None = 1.0
    """The best accuracy on held-out sequences that anything can reach in expectation; None where it is not known."""
    min_length: int = 1
    read_at: ClassVar[Literal["each", "last"]] = "each"
    """Where a model should read its answers: see ``ModelConfig.read_at``."""
    summary: ClassVar[str]
    source: ClassVar[str]

    @abstractmethod
    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        """Draw ``batch_size`` sequences.

        Args:
            batch_size: number of rows, at least 1.
            length: one length for all rows, or an int array ``(batch_size,)`` with a length for each row. It counts as the task's
                format counts it (some formats round it).
            generator: the only source of randomness; the same state gives the same batch on every machine.

        Raises:
            InvalidInputError: a length that the format cannot make.
        """

    @classmethod
    def self_contained(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The same options with the contents of files in place of their paths, so that the task can be made without them.

        Raises:
            InvalidInputError: a file that cannot be read.
        """
        return dict(options)

    def held_out(self) -> Task:
        """The task as validation and test see it: itself, unless training has more labels, other words or a limited set."""
        return self

    def ceiling_at(self, length: int) -> float | None:
        """``ceiling`` at one length, where it depends on the length."""
        return self.ceiling
