"""Estimators with scikit-learn's interface for series of any length, and any registered layer inside.

Series come as an array ``(cases, channels, steps)`` or a list of arrays ``(channels, steps)``, as in aeon, or as an array
``(cases, steps)``, as in scikit-learn, which then has to keep its number of steps. NaN marks a missing value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.layers.options import inherits_options
from statetrack.models import ModelConfig
from statetrack.timeseries.backprop import Gradient
from statetrack.timeseries.fitting import Examples, Loss, Plan, Score, fit, outputs_of
from statetrack.timeseries.network import Pooling, SeriesNet
from statetrack.timeseries.panel import Panel, as_panel
from statetrack.timeseries.preprocessing import Preprocessing, Scaling, Tokens
from statetrack.timeseries.progress import FitDisplay
from statetrack.timeseries.storage import load_estimator, save_estimator
from statetrack.timeseries.targets import labels_of, numbers_of
from statetrack.training.config import OptimConfig

Array = npt.NDArray[Any]
Schedule = Literal["cosine", "constant"]


class EstimatorOptions(TypedDict, total=False):
    """Options that all estimators share, besides ``layer``."""

    layer_options: dict[str, Any] | None
    d_model: int
    n_layers: int
    feedforward: int
    dropout: float
    pooling: Pooling
    scaling: Scaling
    patch: int
    lr: float
    weight_decay: float
    schedule: Schedule
    batch_size: int
    max_epochs: int
    validation_fraction: float
    patience: int | None
    gradient: Gradient
    chunk_size: int
    device: str
    random_state: Any
    verbose: int


class SeriesEstimator(BaseEstimator):
    """What classifier and regressor share.

    Args:
        layer: registered name of the layer, or several joined by ``|``, which alternate.
        layer_options: options of the layer, see ``statetrack list layers NAME``.
        d_model: width.
        n_layers: number of blocks.
        feedforward: hidden width of a feed-forward after each layer as a multiple of ``d_model``; 0 for none.
        dropout: rate in [0, 1).
        pooling: what the readout sees: the ``"mean"`` over time, or the ``"last"`` step.
        scaling: ``"channels"`` standardises with the moments of the training data, ``"series"`` each series with its own,
            ``"none"`` leaves values as they are, ``"one-hot"`` takes them as numbers of classes, such as letters of a text.
        patch: steps that become one token; longer patches cost less.
        lr: peak learning rate.
        weight_decay: on weight matrices.
        schedule: ``"cosine"`` or ``"constant"``.
        batch_size: series per step.
        max_epochs: passes over the training data.
        validation_fraction: share held out for early stopping, from each class alike; 0, or too few series for it, trains to the
            end.
        patience: passes without a better validation score after which training stops; None goes on to the end.
        gradient: of series longer than ``chunk_size``: ``"carries"`` and ``"recompute"`` are exact and hold one chunk at a time,
            ``"truncated"`` cuts gradients at chunks, ``"full"`` holds everything.
        chunk_size: tokens that are held at once.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU where there is one.
        random_state: seed or ``RandomState``: of initial weights, the validation part, order and dropout.
        verbose: 1 shows progress.
    """

    def __init__(
        self,
        layer: str = "linoss",
        *,
        layer_options: dict[str, Any] | None = None,
        d_model: int = 64,
        n_layers: int = 2,
        feedforward: int = 0,
        dropout: float = 0.1,
        pooling: Pooling = "mean",
        scaling: Scaling = "channels",
        patch: int = 1,
        lr: float = 3e-3,
        weight_decay: float = 0.01,
        schedule: Schedule = "cosine",
        batch_size: int = 32,
        max_epochs: int = 100,
        validation_fraction: float = 0.15,
        patience: int | None = 20,
        gradient: Gradient = "carries",
        chunk_size: int = 4096,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.layer = layer
        self.layer_options = layer_options
        self.d_model = d_model
        self.n_layers = n_layers
        self.feedforward = feedforward
        self.dropout = dropout
        self.pooling = pooling
        self.scaling = scaling
        self.patch = patch
        self.lr = lr
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.gradient = gradient
        self.chunk_size = chunk_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def save(self, path: str | Path) -> None:
        """Write a fitted estimator to a folder: weights as safetensors, the rest as JSON, all or nothing.

        Raises:
            RunError: the disk refuses.
            NotFittedError: it is not fitted.
        """
        check_is_fitted(self)
        save_estimator(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What ``save`` wrote.

        Raises:
            RunError: the folder is missing, damaged, or holds another kind of estimator.
        """
        return load_estimator(Path(path), cls)

    # -- fitting -----------------------------------------------------------------------------------------------------------

    def _fit(
        self, X: Any, targets: Array, validation: tuple[Any, Array] | None, n_outputs: int, loss: Loss, score: Score
    ) -> None:
        plan = self._plan()
        plan.validate()
        panel = self._panel(X)
        held_out = None if validation is None else (as_panel(validation[0], n_channels=panel[0].shape[1]), validation[1])
        if held_out is None:
            panel, targets, held_out = self._split(panel, targets, np.random.default_rng([plan.seed, 2]))
        self.preprocessing_ = Preprocessing.fit(panel, scaling=self.scaling, patch=self.patch)
        self.n_channels_ = panel[0].shape[1]
        self.network_ = self._build(n_outputs, plan)
        with FitDisplay(f"{type(self).__name__} ({self.layer})", shown=bool(self.verbose), max_epochs=self.max_epochs) as display:
            self.history_ = fit(
                self.network_,
                self._examples(panel, targets),
                None if held_out is None else self._examples(*held_out),
                loss,
                score,
                plan,
                display,
            )
        self.n_iter_ = len(self.history_)

    def _plan(self) -> Plan:
        optim = OptimConfig(
            lr=self.lr,
            weight_decay=self.weight_decay,
            min_lr=min(1e-5, self.lr),
            schedule="cosine" if checked("schedule", self.schedule, Schedule) == "cosine" else "hold-decay",
        )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return Plan(
            optim,
            self.batch_size,
            self.max_epochs,
            self.patience,
            self.gradient,
            self.chunk_size,
            int(seed),
            torch.device(("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device),
        )

    def _build(self, n_outputs: int, plan: Plan) -> SeriesNet:
        config = ModelConfig(
            d_model=self.d_model,
            n_layers=self.n_layers,
            norm="pre",
            residual=True,
            feedforward=self.feedforward,
            dropout=self.dropout,
            layer=dict(self.layer_options or {}),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(plan.seed)
            net = SeriesNet(self.layer, self.preprocessing_.n_features, n_outputs, config, pooling=self.pooling)
        return net.to(plan.device).eval()

    def _examples(self, panel: Panel, targets: Array) -> Examples:
        return Examples(Tokens(panel, self.preprocessing_), torch.from_numpy(targets))

    def _split(
        self, panel: Panel, targets: Array, generator: np.random.Generator
    ) -> tuple[Panel, Array, tuple[Panel, Array] | None]:
        """Training and validation part."""
        if not 0 <= self.validation_fraction < 1:
            raise InvalidInputError(f"validation_fraction must lie in [0, 1); got {self.validation_fraction!r}.")
        order = generator.permutation(len(panel))
        held = np.zeros(len(panel), dtype=bool)
        for group in self._groups(targets):
            members = order[group[order]]
            held[members[: int(self.validation_fraction * len(members) + 0.5)]] = True
        if not held.any():
            return panel, targets, None
        kept = np.flatnonzero(~held)
        part = np.flatnonzero(held)
        return [panel[i] for i in kept], targets[kept], ([panel[i] for i in part], targets[part])

    def _groups(self, targets: Array) -> list[Array]:
        """Sets of series, as masks, from each of which the validation part takes its share."""
        return [np.ones(len(targets), dtype=bool)]

    # -- prediction --------------------------------------------------------------------------------------------------------

    def _panel(self, X: Any, *, reset: bool = True) -> Panel:
        listed = isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(case, np.ndarray) for case in X)
        if not listed and not (isinstance(X, np.ndarray) and X.ndim == 3):
            X = validate_data(self, X, reset=reset, ensure_all_finite="allow-nan", dtype="numeric")
        elif reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_
        return as_panel(X, n_channels=None if reset else self.n_channels_)

    def _outputs(self, X: Any) -> Tensor:
        check_is_fitted(self)
        panel = self._panel(X, reset=False)
        return outputs_of(self.network_, Tokens(panel, self.preprocessing_), self._plan()).cpu()


class StateTrackClassifier(ClassifierMixin, SeriesEstimator):
    """Classifies series; further options as in ``SeriesEstimator``.

    Args:
        class_weight: weights of classes in the loss: a dict, ``"balanced"`` for the inverse of their frequency, None for 1.

    Attributes:
        classes_: ``(K,)`` the labels.
        network_: the fitted network.
        history_: one record per pass over the training data.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(20, 1, 30))
        >>> x[10:] += np.sin(np.arange(30))
        >>> model = StateTrackClassifier("lru", d_model=8, max_epochs=20, lr=0.02, random_state=0).fit(x, [0] * 10 + [1] * 10)
        >>> model.predict_proba(x).shape
        (20, 2)
    """

    @inherits_options(SeriesEstimator)  # type: ignore[arg-type]
    def __init__(self, layer: str = "linoss", *, class_weight: Any = None, **shared: Unpack[EstimatorOptions]) -> None:
        super().__init__(layer, **shared)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None) -> Self:
        """Train on series and their labels.

        Args:
            X: series, see the top of this module.
            y: ``(n,)`` labels.
            validation: series and labels for early stopping, in place of a part of ``X``.

        Raises:
            InvalidInputError: series or options that do not fit.
            NumericalError: the loss is not finite.
        """
        y = labels_of(X, y)
        check_classification_targets(y)
        self.classes_, ids = np.unique(y, return_inverse=True)
        weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        weights = torch.tensor(weight, dtype=torch.float32, device=self._plan().device)

        def loss(scores: Tensor, targets: Tensor) -> Tensor:
            return cross_entropy(scores, targets, weight=weights)

        def score(scores: Tensor, targets: Tensor) -> float:
            right = (scores.argmax(1) == targets).float() * weights[targets]
            return float(right.sum() / weights[targets].sum().clamp(min=1e-30))

        self._fit(X, ids.astype(np.int64), self._held_out(validation), len(self.classes_), loss, score)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities ``(n, K)`` of the classes in the order of ``classes_``."""
        return self._outputs(X).double().softmax(1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable label of each series."""
        best = self._outputs(X).argmax(1).numpy()
        return self.classes_[best]

    def _groups(self, targets: Array) -> list[Array]:
        return [targets == each for each in np.unique(targets)]

    def _held_out(self, validation: tuple[Any, Any] | None) -> tuple[Any, Array] | None:
        if validation is None:
            return None
        y = labels_of(*validation)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InvalidInputError(f"The validation labels {unknown[:5].tolist()} do not occur in y.")
        return validation[0], np.searchsorted(self.classes_, y)


class StateTrackRegressor(RegressorMixin, SeriesEstimator):
    """Predicts a number for each series; options as in ``SeriesEstimator``.

    Attributes:
        network_: the fitted network.
        history_: one record per pass over the training data; the validation score is R².
    """

    @inherits_options(SeriesEstimator)  # type: ignore[arg-type]
    def __init__(self, layer: str = "linoss", **shared: Unpack[EstimatorOptions]) -> None:
        super().__init__(layer, **shared)

    def fit(self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None) -> Self:
        """Train on series and their numbers.

        Args:
            X: series, see the top of this module.
            y: ``(n,)`` numbers.
            validation: series and numbers for early stopping, in place of a part of ``X``.

        Raises:
            InvalidInputError: series or options that do not fit.
            NumericalError: the loss is not finite.
        """
        y = numbers_of(X, y)
        self.target_mean_ = float(y.mean())
        self.target_scale_ = float(y.std()) or 1.0
        held_out = None if validation is None else (validation[0], self._scaled(numbers_of(*validation)))

        def loss(scores: Tensor, targets: Tensor) -> Tensor:
            return mse_loss(scores.squeeze(1), targets)

        def score(scores: Tensor, targets: Tensor) -> float:
            spread = (targets - targets.mean()).square().sum().clamp(min=1e-12)
            return float(1 - (scores.squeeze(1) - targets).square().sum() / spread)

        self._fit(X, self._scaled(y), held_out, 1, loss, score)
        return self

    def predict(self, X: Any) -> Array:
        """A number for each series."""
        return self._outputs(X).double().squeeze(1).numpy() * self.target_scale_ + self.target_mean_

    def _scaled(self, y: Array) -> Array:
        return ((y - self.target_mean_) / self.target_scale_).astype(np.float32)
