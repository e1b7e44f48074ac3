"""Predictions while a series comes in: memory does not grow with its length, and the result is that of the whole series.

A stream holds the state of each layer, the running pool of features and the steps of a patch that is not yet full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from statetrack.errors import InvalidInputError
from statetrack.timeseries.network import Carry

Array = npt.NDArray[Any]


class SeriesStream:
    """One series, read in blocks of any size by a fitted estimator.

    Args:
        estimator: a fitted ``StateTrackClassifier`` or ``StateTrackRegressor``.

    Attributes:
        n_steps: steps read since the last restart.

    Raises:
        NotFittedError: the estimator is not fitted.
        InvalidInputError: it scales each series by its own moments, which are not known before the end.

    Example:
        >>> from statetrack.timeseries import StateTrackClassifier
        >>> x = np.random.default_rng(0).normal(size=(8, 1, 40)).astype(np.float32)
        >>> model = StateTrackClassifier("lru", d_model=8, max_epochs=1, random_state=0).fit(x, [0, 1] * 4)
        >>> stream = SeriesStream(model)
        >>> for block in np.split(x[0], 10, axis=1):
        ...     stream.push(block)
        >>> bool(np.allclose(stream.predict_proba(), model.predict_proba(x[:1])[0], atol=1e-5))
        True
    """

    def __init__(self, estimator: Any) -> None:
        check_is_fitted(estimator)
        if not estimator.preprocessing_.streams:
            raise InvalidInputError("scaling='series' needs the whole series; fit with scaling='channels' or 'none' for streams.")
        self.estimator = estimator
        self._net, self._tokens = estimator.network_, estimator.preprocessing_
        self._device = next(self._net.parameters()).device
        self._channels = len(self._tokens.mean)
        self._waiting: npt.NDArray[np.float32]
        self._carry: Carry
        self.restart()

    def restart(self, *, keep_state: bool = False) -> None:
        """Begin another series; with ``keep_state`` only the pool is emptied, and layers remember what came before."""
        with torch.no_grad():
            fresh = self._net.start(1)
        if keep_state:
            before = self._advanced(self._waiting) if len(self._waiting) else self._carry
            fresh = fresh._replace(states=before.states)
        self._carry = fresh
        self._waiting = np.zeros((0, self._channels), np.float32)
        self.n_steps = 0

    def push(self, x: Array) -> None:
        """Read steps ``(C, k)``, or ``(k,)`` where there is one channel; NaN marks missing values.

        Raises:
            InvalidInputError: another number of channels, or infinite values.
        """
        steps = np.asarray(x, dtype=np.float32)
        steps = steps[None] if steps.ndim == 1 and self._channels == 1 else steps
        if steps.ndim != 2 or steps.shape[0] != self._channels:
            raise InvalidInputError(f"A block needs shape ({self._channels}, steps); got {np.shape(x)}.")
        if np.isinf(steps).any():
            raise InvalidInputError("A block holds infinity. NaN marks a missing value.")
        self.n_steps += steps.shape[1]
        patch, rows = self._tokens.patch, steps.T
        if patch > 1:
            rows = np.concatenate([self._waiting, rows])
            whole = len(rows) - len(rows) % patch
            rows, self._waiting = rows[:whole], rows[whole:].copy()
        for start in range(0, len(rows), patch * self.estimator.chunk_size):
            self._carry = self._advanced(rows[start : start + patch * self.estimator.chunk_size])

    def step(self, x_t: Array) -> None:
        """Read one step ``(C,)``."""
        self.push(np.asarray(x_t).reshape(-1, 1))

    def predict_proba(self) -> Array:
        """Probabilities ``(K,)`` of the classes for what was read so far."""
        return torch.as_tensor(self._outputs()).softmax(0).numpy()

    def predict(self) -> Any:
        """The most probable label, or the number, for what was read so far."""
        outputs = self._outputs()
        if hasattr(self.estimator, "classes_"):
            return self.estimator.classes_[outputs.argmax()]
        return float(outputs[0]) * self.estimator.target_scale_ + self.estimator.target_mean_

    def _outputs(self) -> Array:
        if self.n_steps == 0:
            raise InvalidInputError("Nothing was read yet.")
        carry = self._advanced(self._waiting) if len(self._waiting) else self._carry
        with torch.no_grad():
            found: Array = self._net.read(carry)[0].double().cpu().numpy()
        return found

    def _advanced(self, rows: npt.NDArray[np.float32]) -> Carry:
        tokens = torch.from_numpy(self._tokens(rows)).to(self._device)
        with torch.no_grad():
            advanced: Carry = self._net.advance(tokens.unsqueeze(0), self._carry)
        return advanced


def classify_segments(
    estimator: Any, blocks: Iterable[Array], borders: Iterable[int], *, keep_state: bool = False
) -> Iterator[tuple[int, int, Array]]:
    """Classify a stream piece by piece, such as beat by beat or window by window.

    Args:
        estimator: a fitted ``StateTrackClassifier``.
        blocks: of one record, each ``(C, k)`` with any number of steps.
        borders: rising steps at which a segment ends and the next begins; ``itertools.count(w, w)`` gives windows of ``w``. What
            comes before the first border is a segment, what comes after the last is none.
        keep_state: whether layers remember earlier segments; otherwise each result is that of its segment alone.

    Yields:
        First step, step after the last, and probabilities ``(K,)`` of each segment, as soon as it has come in.

    Raises:
        InvalidInputError: borders that do not rise.
    """
    stream, ends = SeriesStream(estimator), iter(borders)
    begin, end, now = 0, next(ends, None), 0
    for block in blocks:
        block = np.asarray(block)
        while end is not None and block.shape[-1] >= end - now:
            if end <= begin:
                raise InvalidInputError(f"Borders must rise from 1 on; {end} comes after {begin}.")
            stream.push(block[..., : end - now])
            yield begin, end, stream.predict_proba()
            stream.restart(keep_state=keep_state)
            block, now = block[..., end - now :], end
            begin, end = end, next(ends, None)
        if end is None:
            return
        stream.push(block)
        now += block.shape[-1]
