"""The 66 settings of MAD: for each task a baseline, and one thing changed at a time.

Source: Mechanistic Design and Scaling of Hybrid Architectures (MAD, arXiv 2403.17844).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

N_EXAMPLES = 12_800


class Setting(NamedTuple):
    """One setting.

    Attributes:
        task: its name, without ``mad-``.
        change: what differs from the baseline, such as ``vocab_size-32``; ``baseline`` itself.
        length: number of tokens.
        options: of the task.
    """

    task: str
    change: str
    length: int
    options: Mapping[str, Any]


_BASELINES: dict[str, tuple[int, Mapping[str, Any]]] = {
    "compression": (32, MappingProxyType({"vocab_size": 16, "n_examples": N_EXAMPLES})),
    "fuzzy-recall": (128, MappingProxyType({"vocab_size": 16, "n_examples": N_EXAMPLES})),
    "in-context-recall": (128, MappingProxyType({"vocab_size": 16, "n_examples": N_EXAMPLES})),
    "memorization": (32, MappingProxyType({"vocab_size": 256, "n_examples": 256})),
    "noisy-recall": (128, MappingProxyType({"vocab_size": 32, "n_noise": 16, "noise": 0.2, "n_examples": N_EXAMPLES})),
    "selective-copying": (256, MappingProxyType({"vocab_size": 16, "n_tokens": 16, "n_examples": N_EXAMPLES})),
}
TASKS = tuple(_BASELINES)
"""In the order of the published tables."""

_FEWER = (6400, 3200, 1600, 800)
_CHANGES: dict[str, dict[str, tuple[Any, ...]]] = {
    "compression": {"vocab_size": (32, 64, 128), "length": (64, 128, 256), "n_examples": _FEWER},
    "fuzzy-recall": {"vocab_size": (32, 64, 128), "length": (256, 512, 1024), "n_examples": _FEWER},
    "in-context-recall": {"vocab_size": (32, 64, 128), "length": (256, 512, 1024), "n_examples": _FEWER},
    "memorization": {"vocab_size": (512, 1024, 2048, 4096, 8192)},
    "noisy-recall": {
        "vocab_size": (48, 80, 144),
        "length": (256, 512, 1024),
        "n_examples": _FEWER,
        "noise": (0.4, 0.6, 0.8),
    },
    "selective-copying": {
        "vocab_size": (32, 64, 128),
        "length": (512, 1024),
        "n_examples": _FEWER,
        "n_tokens": (32, 64, 96),
    },
}


def mad_settings(*, baseline_only: bool = False) -> list[Setting]:
    """All settings, or the six baselines.

    >>> len(mad_settings()), len(mad_settings(baseline_only=True))
    (66, 6)
    """
    found = []
    for task, (length, options) in _BASELINES.items():
        found.append(Setting(task, "baseline", length, options))
        for name, values in {} if baseline_only else _CHANGES[task].items():
            for value in values:
                if name == "length":
                    found.append(Setting(task, f"length-{value}", value, options))
                else:
                    found.append(Setting(task, f"{name}-{value}", length, {**options, name: value}))
    return found
