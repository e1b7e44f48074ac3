"""statetrack: sequence layers that track state.

Train a layer to follow an automaton on short words, and see how far it goes on long ones:

    import statetrack as st

    config = st.default_config("flash-pd-ssm", "cycle-navigation", seed=3)
    run = st.train(config, "runs/x")
    print(run.evaluate([64, 256, 1000])["accuracy"])
    print(st.write_report(run))
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Run": "statetrack.training",
    "TrainConfig": "statetrack.training",
    "compare": "statetrack.report",
    "default_config": "statetrack.recipes.defaults",
    "make_layer": "statetrack.layers",
    "make_task": "statetrack.tasks",
    "resume": "statetrack.training",
    "train": "statetrack.training",
    "write_report": "statetrack.report",
}
"""Where each name of the short interface lives; it is loaded on first use, so that ``import statetrack`` costs nothing."""

_FOLDERS = (
    "analysis",
    "automata",
    "integrations",
    "layers",
    "models",
    "recipes",
    "report",
    "scan",
    "structures",
    "tasks",
    "testing",
    "theory",
    "training",
)

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _FOLDERS:
        return importlib.import_module(f"statetrack.{name}")
    raise AttributeError(f"module 'statetrack' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_FOLDERS})
