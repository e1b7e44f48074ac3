"""Small trained runs, each trained once, and models with exact weights written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from statetrack.automata import Automaton
from statetrack.models import ModelConfig, Tagger
from statetrack.recipes.defaults import default_config
from statetrack.training import EvalConfig, Run, TrainConfig, train


def small_config(layer: str, task: str, *, seed: int = 1, steps: int = 700, n_layers: int = 1, **options: Any) -> TrainConfig:
    """A run of a second or two: two heads with eight places, words of 1 to 16 tokens."""
    base = default_config(layer, task, seed=seed, task_options=options.pop("task_options", None))
    layer_options = {**base.model.layer, "d_state": 8, "n_heads": 2, "dictionary_size": 4, **options}
    return replace(
        base,
        model=replace(base.model, d_model=16, n_layers=n_layers, layer=layer_options),
        optim=replace(base.optim, lr=5e-3, decay_steps=60),
        lengths=replace(base.lengths, low=1, high=16, start=4),
        evaluation=EvalConfig(every=25, low=16, high=48, n=64, stop_at=1.0),
        steps=steps,
        batch_size=64,
        checkpoint_every=10_000,
    )


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """A run that has learnt its task, on the first of a few seeds that does; each is trained once."""
    known: dict[str, Run] = {}

    def get(layer: str, task: str, **options: Any) -> Run:
        key = repr((layer, task, sorted(options.items())))
        if key not in known:
            for seed in range(1, 9):
                run = train(small_config(layer, task, seed=seed, **options), tmp_path_factory.mktemp("learnt") / "run")
                if run.progress().validation == 1.0:
                    known[key] = run
                    break
            else:
                pytest.fail(f"{layer} learnt {task} on none of eight seeds")
        return known[key]

    return get


@pytest.fixture(scope="session")
def barely_trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was stopped long before it had learnt anything."""
    return train(small_config("flash-pd-ssm", "cycle-navigation", steps=30), tmp_path_factory.mktemp("barely") / "run")


def exact_tagger(automaton: Automaton, layer: str = "flash-pd-ssm", **options: Any) -> Tagger:
    """A one-layer model that runs an automaton over its symbols: maps are transitions, scores are 4 for the class and 0 else.

    Embeddings are unit vectors, the router sends symbol ``k`` to map ``k`` and the readout copies the state.
    """
    n, n_symbols = automaton.n_states, automaton.n_symbols
    width = max(n, n_symbols)
    exact = {"d_field": "real", "modulus": "unit", "additive_input": False, "skip": False, **options}
    config = ModelConfig(d_model=width, norm="none", layer={"d_state": n, "dictionary_size": n_symbols, **exact})
    model = Tagger(layer, n_symbols, automaton.n_outputs, config).eval()
    cell = model.layers[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[range(n_symbols), range(n_symbols)] = 1.0
        cell.router.weight[range(n_symbols), range(n_symbols)] = 20.0
        for symbol in range(n_symbols):
            cell.scores[0, symbol, automaton.transitions[:, symbol].tolist(), range(n)] = 1.0
        cell.readout.out.weight[range(n), range(n)] = 1.0
        model.head.weight[automaton.outputs.tolist(), range(n)] = 4.0
    return model


def answers_of(model: Tagger, words: np.ndarray) -> np.ndarray:
    """Classes after each token, all words at once."""
    with torch.no_grad():
        return model(torch.from_numpy(words))[0].argmax(-1).numpy()


def copy_run(run: Run, to: Path) -> Run:
    """A copy of a run folder, for tests that change it."""
    import shutil

    shutil.copytree(run.path, to)
    return Run.open(to)
