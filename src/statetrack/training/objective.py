"""The training objective: cross-entropy at the labelled positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from statetrack.models import Tagger
from statetrack.tasks import Batch


class Outcome(NamedTuple):
    """Attributes:
    loss: summed over the labels of the batch.
    correct: number of right labels.
    labels: number of labels.
    """

    loss: Tensor
    correct: Tensor
    labels: int


class Objective(nn.Module):
    """Loss of a tagger on a batch.

    Words of different lengths are packed into one row for layers whose scans take that at no cost; others read them right-padded,
    which cannot reach the labels of a causal layer.
    """

    def __init__(self, model: Tagger) -> None:
        super().__init__()
        self.model = model
        self.packs = all(layer.traits.linear for layer in model.layers)

    def forward(self, batch: Batch) -> Outcome:
        inputs, lengths = batch.inputs, batch.lengths
        if self.packs and int(lengths.min()) < inputs.shape[1]:
            real = torch.arange(inputs.shape[1], device=inputs.device) < lengths.unsqueeze(1)
            offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
            features = self.model.features(inputs[real].unsqueeze(0), cu_seqlens=offsets)[0][0]
            labelled = features[batch.mask[real]]
        else:
            labelled = self.model.features(inputs)[0][batch.mask]
        scores, targets = self.model.head(labelled), batch.targets[batch.mask]
        loss = nn.functional.cross_entropy(scores, targets, reduction="sum")
        return Outcome(loss, (scores.argmax(-1) == targets).sum(), len(targets))
