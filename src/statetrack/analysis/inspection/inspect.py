"""A run under every tool: its layers, its influence against distance, its smoothing by depth, its mistakes and its automaton."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.extraction.extract import Extraction, extract
from statetrack.analysis.inspection.confusion import Confusion, confusion
from statetrack.analysis.inspection.layer import LayerView, layer_view
from statetrack.analysis.layer_inputs import layer_inputs
from statetrack.analysis.recency import InfluenceCurve, by_distance, model_influence
from statetrack.analysis.smoothing import DepthSmoothing, smoothing_by_depth
from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.layers import names_of
from statetrack.tasks import stream
from statetrack.training import Run
from statetrack.training.measure import Measurement, default_lengths, measure, remembered_lengths, threads

_LONGEST = 64
_OUTPUTS = 12


@dataclass(frozen=True)
class Inspection:
    """What was measured.

    Attributes:
        words: number of words that the layers were looked at on.
        length: their length in tokens.
        layers: from the input up.
        influence: of embeddings on what the head reads.
        smoothing: by depth.
        accuracy: by length of the test words.
        confusions: at the first and the last of these lengths.
        extraction: the automaton, or None.
        no_extraction: why there is none.
    """

    words: int
    length: int
    layers: list[LayerView]
    influence: InfluenceCurve
    smoothing: DepthSmoothing
    accuracy: Measurement
    confusions: list[Confusion]
    extraction: Extraction | None
    no_extraction: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None stands for what is not a finite number."""
        return _finite(
            {
                "words": self.words,
                "length": self.length,
                "layers": [each.to_dict() for each in self.layers],
                "influence": self.influence.to_dict(),
                "smoothing": self.smoothing.to_dict(),
                "accuracy": self.accuracy.to_dict(),
                "confusions": [each.to_dict() for each in self.confusions],
                "extraction": None if self.extraction is None else self.extraction.to_dict(),
                "no_extraction": self.no_extraction,
            }
        )


def inspect_run(
    run: Run,
    *,
    words: int = 4,
    length: int | None = None,
    lengths: Sequence[int] = (),
    n: int = 512,
    max_states: int = 64,
) -> Inspection:
    """Look inside a run's newest weights, in float64.

    Args:
        run: a run with a checkpoint.
        words: validation words that its layers are looked at on.
        length: their length; None means the longest of training, but at most 64.
        lengths: of the test words; none means those tested so far, or else the usual ones.
        n: test words per length.
        max_states: of an automaton that is learnt from answers.

    Raises:
        InvalidInputError: numbers below 1, or a length the task cannot make.
        RunError: a run without a checkpoint.
    """
    if min(words, n, max_states) < 1 or (length is not None and length < 2):
        raise InvalidInputError(
            f"words, n and max_states must be at least 1 and length at least 2; got {words}, {n}, {max_states}, {length}."
        )
    with threads(run.config.threads):
        model = run.load_model()
        tokens = _words(run, words, length)
        inputs = layer_inputs(model, tokens)
        names = names_of(run.config.layer)
        views = [
            layer_view(names[i % len(names)], layer, x) for i, (layer, x) in enumerate(zip(model.layers, inputs, strict=True))
        ]
        last = tokens.shape[1] - 1
        positions = sorted({round(t) for t in torch.linspace((last + 1) // 2, last, _OUTPUTS).tolist()})
        curve = by_distance(model_influence(model, tokens, positions=positions), positions=positions)
        smoothing = smoothing_by_depth(model, tokens)
        found, why = _automaton(run, max_states)
        asked = lengths or sorted({*default_lengths(run), *remembered_lengths(run, n)})
        accuracy = measure(run, asked, n=n, reuse=True)
        shown = sorted({min(accuracy.accuracy), max(accuracy.accuracy)})
        confusions = [confusion(model, run.task, each, n, run.config.seed) for each in shown]
    return Inspection(len(tokens), tokens.shape[1], views, curve, smoothing, accuracy, confusions, found, why)


def _words(run: Run, words: int, length: int | None) -> Tensor:
    task = run.task.held_out()
    size = min(run.config.lengths.high, _LONGEST) if length is None else length
    batch = task.sample(words, max(size, task.min_length), stream(run.config.seed, "validation", size))
    tokens = batch.inputs[:, : int(batch.lengths.min())]
    if tokens.shape[1] < 2:
        raise InvalidInputError(f"Words of length {size} have {tokens.shape[1]} tokens; looking inside takes at least 2.")
    return tokens


def _automaton(run: Run, max_states: int) -> tuple[Extraction | None, str]:
    try:
        return extract(run, max_states=max_states), ""
    except (InvalidInputError, MissingExtraError) as error:
        return None, str(error)


def _finite(data: Any) -> Any:
    """Plain data with None for numbers that JSON does not have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
