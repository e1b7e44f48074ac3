"""How long a token can be read off the state: linear probes for the token k steps back.

    retention(k) = (acc(k) - chance) / (acc(0) - chance)

acc(k) = accuracy of a multinomial logistic probe on states of words it was not fitted to, chance = the share of the most frequent
token among its answers. A probe that is fitted to shuffled answers is the control: what it gets right beyond chance is chance.
That a probe succeeds does not say that the layer uses what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import unroll
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer

_DECAY = 1e-4
_STEPS = 60


@dataclass(frozen=True)
class Decoding:
    """Numbers by lag.

    Attributes:
        lags: k, in tokens.
        accuracy: of the probe on held-out words.
        control: of the probe that was fitted to shuffled answers.
        chance: share of the most frequent answer.
        samples: held-out states of each lag.
    """

    lags: tuple[int, ...]
    accuracy: tuple[float, ...]
    control: tuple[float, ...]
    chance: tuple[float, ...]
    samples: tuple[int, ...]

    @property
    def retention(self) -> tuple[float, ...]:
        """``(acc(k) - chance) / (acc(0) - chance)``, by lag; NaN where the token itself cannot be read."""
        own = self.accuracy[0] - self.chance[0]
        pairs = zip(self.accuracy, self.chance, strict=True)
        return tuple((share - chance) / own if own > 0 else float("nan") for share, chance in pairs)

    @property
    def selectivity(self) -> tuple[float, ...]:
        """Accuracy minus that of the control, by lag."""
        return tuple(a - c for a, c in zip(self.accuracy, self.control, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: list(values) for name, values in vars(self).items()}


def decoding(
    layer: Layer, x: Tensor, tokens: Tensor, *, lags: Sequence[int] = (0, 1, 2, 4, 8), generator: torch.Generator | None = None
) -> Decoding:
    """Fit and test probes on the states that a layer visits; the first half of the words is for fitting, the second for testing.

    Args:
        layer: a layer with a state of constant size.
        x: ``(B, L, d_model)``, B at least 2.
        tokens: ``(B, L)``, what is to be read: integers from 0.
        lags: k, the first of which must be 0.
        generator: of the shuffled control; None means one seeded with 0.

    Raises:
        InvalidInputError: shapes or lags that do not fit, or a layer whose cache grows.

    Example:
        >>> from statetrack.layers import make_layer
        >>> tokens = torch.randint(0, 2, (8, 20), generator=torch.Generator().manual_seed(0))
        >>> layer = make_layer("shift", 1, d_state=3)
        >>> found = decoding(layer, 2.0 * tokens.unsqueeze(-1) - 1, tokens, lags=(0, 2, 3))
        >>> [round(share, 1) for share in found.accuracy[:2]], found.accuracy[2] < 0.7
        ([1.0, 1.0], True)
    """
    n_words, length = tokens.shape if tokens.ndim == 2 else (0, 0)
    if n_words < 2 or x.shape[:2] != tokens.shape or tokens.is_floating_point() or int(tokens.min()) < 0:
        raise InvalidInputError(
            f"x and tokens need shapes (B, L, E) and (B, L) with B of at least 2 and tokens from 0; got {tuple(x.shape)}, "
            f"{tuple(tokens.shape)}."
        )
    if not lags or lags[0] != 0 or min(lags) < 0 or max(lags) >= length:
        raise InvalidInputError(f"lags must begin with 0 and lie in 0..{length - 1}; got {tuple(lags)}.")
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    h = unroll(layer, x).h[:, 1:]
    features = (torch.view_as_real(h) if h.is_complex() else h).flatten(2)
    half = n_words // 2
    rows = []
    for lag in lags:
        past = tokens[:, : length - lag]
        fit, test = features[:half, lag:].flatten(0, 1), features[half:, lag:].flatten(0, 1)
        answers, truth = past[:half].flatten(), past[half:].flatten()
        shuffled = answers[torch.randperm(len(answers), generator=generator)]
        shares = [_held_out(fit, given, test, truth) for given in (answers, shuffled)]
        rows.append((*shares, float(truth.bincount().max() / len(truth)), len(truth)))
    accuracy, control, chance, samples = zip(*rows, strict=True)
    return Decoding(tuple(lags), accuracy, control, chance, samples)


def _held_out(fit: Tensor, answers: Tensor, test: Tensor, truth: Tensor) -> float:
    """Accuracy on ``test`` of a logistic probe fitted to ``fit``, features standardised by what it was fitted to."""
    mean, deviation = fit.mean(0), fit.std(0, unbiased=False)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    fit, test = (fit - mean) / deviation, (test - mean) / deviation
    weight = torch.zeros(fit.shape[1] + 1, int(max(answers.max(), truth.max())) + 1, dtype=fit.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def scores(z: Tensor) -> Tensor:
        return z @ weight[:-1] + weight[-1]

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(scores(fit), answers) + _DECAY * weight[:-1].square().sum()
        torch.autograd.backward(loss)
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return float((scores(test.detach()).argmax(-1) == truth).double().mean())
