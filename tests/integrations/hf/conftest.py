"""Tiny models of every kind, and no network."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import pytest
import torch

transformers = pytest.importorskip("transformers")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

from statetrack.integrations.hf import StateTrackConfig, StateTrackForCausalLM  # noqa: E402
from statetrack.layers import layer_options  # noqa: E402

VOCABULARY = 23
SMALL = {"block_size": 2, "chunk_size": 4, "d_head": 4, "d_state": 4, "n_heads": 2, "n_iterations": 3, "dictionary_size": 3}


def tiny_config(pattern, **changes):
    """Two blocks of width 8."""
    names = list(dict.fromkeys(pattern.split(",")))
    options = {
        key if len(names) == 1 else f"{name}.{key}": value
        for name in names
        for key, value in SMALL.items()
        if key in layer_options(name)
    }
    settings = {"vocab_size": VOCABULARY, "hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 16, "pad_token_id": 0}
    return StateTrackConfig(**{**settings, "pattern": pattern, "layer_options": options, **changes})


def tiny_model(pattern, seed=0, **changes):
    """The model with weights large enough that its choices differ from position to position."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = StateTrackForCausalLM(tiny_config(pattern, initializer_range=0.5, **changes))
    return model.eval()


def tokens(*shape, seed=1):
    """Ids without the padding."""
    return torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(name="tiny_config")
def _config_maker():
    return tiny_config


@pytest.fixture(name="tiny_model")
def _model_maker():
    return tiny_model


@pytest.fixture(name="tokens")
def _token_maker():
    return tokens
