"""Fitted estimators as folders: ``network.safetensors`` and ``estimator.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

import statetrack
from statetrack.errors import RunError
from statetrack.timeseries.preprocessing import Preprocessing
from statetrack.training.files import new_folder, read_json, write_json

_FORMAT = 1
_KEPT = ("n_channels_", "n_features_in_", "n_iter_", "history_", "target_mean_", "target_scale_")

E = TypeVar("E")


def save_estimator(path: Path, estimator: Any) -> None:
    """Write a fitted estimator, all or nothing.

    Raises:
        RunError: the disk refuses, or there is something else at ``path``.
    """
    from safetensors.torch import save_file

    if path.exists() and not (path / "estimator.json").exists():
        raise RunError(f"{path} exists and is no saved estimator; choose another folder.")
    params = estimator.get_params(deep=False)
    seed = params["random_state"]
    if not (seed is None or isinstance(seed, int | np.integer)):
        params["random_state"] = None  # a generator's state says nothing about the weights that are saved
    fitted = {name: getattr(estimator, name) for name in _KEPT if hasattr(estimator, name)}
    data = {
        "format": _FORMAT,
        "statetrack": statetrack.__version__,
        "estimator": type(estimator).__name__,
        "params": {name: _plain(value) for name, value in params.items()},
        "fitted": fitted,
        "preprocessing": estimator.preprocessing_.to_dict(),
        "n_outputs": estimator.network_.head.out_features,
    }
    if hasattr(estimator, "classes_"):
        data["classes"] = {"values": estimator.classes_.tolist(), "dtype": estimator.classes_.dtype.str}
    try:
        with new_folder(path) as temporary:
            state = {name: tensor.detach().cpu().contiguous() for name, tensor in estimator.network_.state_dict().items()}
            save_file(state, temporary / "network.safetensors")
            write_json(temporary / "estimator.json", data)
    except (OSError, TypeError, ValueError) as error:
        raise RunError(f"Cannot save the estimator in {path}: {error}.") from error


def load_estimator(path: Path, cls: type[E]) -> E:
    """A saved estimator.

    Raises:
        RunError: the folder is missing, damaged, of another version or of another class.
    """
    from safetensors.torch import load_file

    data = read_json(path / "estimator.json")
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise RunError(f"{path} holds no estimator that statetrack {statetrack.__version__} can read.")
    if data["estimator"] != cls.__name__:
        raise RunError(f"{path} holds a {data['estimator']}; load it with {data['estimator']}.load.")
    try:
        params = data["params"]
        if isinstance(params.get("class_weight"), list):
            params["class_weight"] = dict(params["class_weight"])
        estimator: Any = cls(**params)
        for name, value in data["fitted"].items():
            setattr(estimator, name, value)
        if "classes" in data:
            kept = data["classes"]
            labels = kept["values"]
            estimator.classes_ = np.array(labels, dtype=object if kept["dtype"] == "|O" else np.dtype(kept["dtype"]))
        estimator.preprocessing_ = Preprocessing.from_dict(data["preprocessing"])
        estimator.network_ = estimator._build(data["n_outputs"], estimator._plan())
        estimator.network_.load_state_dict(load_file(path / "network.safetensors"))
    except Exception as error:
        raise RunError(f"{path} is damaged: {str(error).splitlines()[0] if str(error) else error!r}") from error
    return estimator


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's; a dict whose keys JSON would turn into words as a list of pairs."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return [[_plain(key), _plain(entry)] for key, entry in value.items()]
    if isinstance(value, torch.device):
        return str(value)
    return value
