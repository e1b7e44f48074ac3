"""Accuracy on held-out words, per length and pooled over a range of lengths."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from statetrack.models import Tagger
from statetrack.tasks import Batch, Split, Task, fixed_set

_BLOCK = 1024
"""Tokens per row and pass: longer words stream through in blocks, so that memory does not grow with their length."""

_BATCH = 256


def accuracy_at(model: Tagger, task: Task, length: int, n: int, seed: int, split: Split = "test") -> float:
    """Share of right labels among ``n`` words of one length.

    Raises:
        InvalidInputError: a length the task cannot make.
    """
    return pooled_accuracy(model, fixed_set(task, n, length, length, seed, split, _batch_size(length)))


def pooled_accuracy(model: Tagger, batches: Iterable[Batch]) -> float:
    """Share of right labels over all labelled positions of some batches."""
    correct = total = 0
    for batch in batches:
        hits, labels = count_correct(model, batch)
        correct, total = correct + hits, total + labels
    return correct / total


@torch.no_grad()
def row_accuracy(model: Tagger, task: Task, length: int, n: int, seed: int, split: Split = "test") -> float:
    """Share of ``n`` rows of one length all of whose labels are right: for answers of several words, exact match.

    Raises:
        InvalidInputError: a length the task cannot make.
    """
    right = 0
    for batch in fixed_set(task, n, length, length, seed, split, _batch_size(length)):
        wrong = (model(batch.inputs)[0].argmax(-1) != batch.targets) & batch.mask
        right += int((~wrong.any(1)).sum())
    return right / n


def evaluation_set(task: Task, low: int, high: int, n: int, seed: int, split: Split) -> list[Batch]:
    """A fixed set of words with uniform lengths in ``low .. high``, in batches of a size that suits the longest."""
    return list(fixed_set(task, n, low, high, seed, split, _batch_size(high)))


def _batch_size(length: int) -> int:
    return max(8, min(_BATCH, _BATCH * 512 // max(1, length)))


def count_correct(model: Tagger, batch: Batch) -> tuple[int, int]:
    """Right labels and all labels of a batch; the model is left in the mode it was in."""
    return sum(int((given == right).sum()) for given, right in answers(model, batch)), int(batch.mask.sum())


@torch.no_grad()
def answers(model: Tagger, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Given and right classes ``(n,)`` at the labelled positions, part by part; the model is left in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        found = []
        states = None
        step = _BLOCK if _streams(model) else batch.inputs.shape[1]
        for start in range(0, batch.inputs.shape[1], max(1, step)):
            part = slice(start, start + step)
            features, states = model.features(batch.inputs[:, part], states)
            mask = batch.mask[:, part]
            found.append((model.head(features[mask]).argmax(-1), batch.targets[:, part][mask]))
        return found
    finally:
        model.train(was_training)


def _streams(model: Tagger) -> bool:
    return model.decoder is None and all(layer.traits.streams for layer in model.layers)
