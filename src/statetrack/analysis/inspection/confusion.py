"""Which class a model gives where another is right, by length of the test words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.models import Tagger
from statetrack.tasks import Task
from statetrack.training.evaluate import answers, evaluation_set


@dataclass(frozen=True)
class Confusion:
    """Answers counted; only pairs of classes that occurred are stored, since vocabularies have thousands of classes.

    Attributes:
        pairs: ``(P, 2)`` int64, right class and given class, ascending.
        times: ``(P,)`` int64, how often.
        length: of the words.
        words: number of words.
    """

    pairs: Tensor
    times: Tensor
    length: int
    words: int

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return float(self.times[self.pairs[:, 0] == self.pairs[:, 1]].sum() / self.times.sum())

    @property
    def classes(self) -> list[int]:
        """Classes that were right or given at least once."""
        return self.pairs.unique().tolist()

    @property
    def counts(self) -> Tensor:
        """``(C, C)`` int64 over ``classes``, right class by given class."""
        classes = self.pairs.unique()
        counts = torch.zeros(len(classes), len(classes), dtype=torch.int64)
        counts[torch.searchsorted(classes, self.pairs).unbind(-1)] = self.times
        return counts

    @property
    def shares(self) -> Tensor:
        """``(C, C)`` float64, rows of ``counts`` divided by their sums; 0 for classes that never were right."""
        counts = self.counts
        return counts.double() / counts.sum(1, keepdim=True).clamp(min=1)

    def most_confused(self, n: int = 5) -> list[tuple[int, int, int]]:
        """The commonest mistakes: right class, given class, count."""
        wrong = self.pairs[:, 0] != self.pairs[:, 1]
        pairs, times = self.pairs[wrong], self.times[wrong]
        top = times.argsort(descending=True, stable=True)[:n]
        return [(*pairs[i].tolist(), int(times[i])) for i in top.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: ``[right class, given class, count]`` for every pair that occurred."""
        rows = torch.cat([self.pairs, self.times.unsqueeze(1)], dim=1).tolist()
        return {"length": self.length, "words": self.words, "accuracy": self.accuracy, "counts": rows}


def confusion(model: Tagger, task: Task, length: int, n: int, seed: int) -> Confusion:
    """Answers on the same ``n`` test words of a length that accuracy is measured on.

    Raises:
        InvalidInputError: a length the task cannot make.
    """
    found = [
        torch.stack([right, given], dim=1)
        for batch in evaluation_set(task, length, length, n, seed, "test")
        for given, right in answers(model, batch)
    ]
    pairs, times = torch.cat(found).unique(dim=0, return_counts=True)
    return Confusion(pairs, times, length, n)
