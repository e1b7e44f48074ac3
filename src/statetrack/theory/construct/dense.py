"""SD-SSM: any automaton in one layer.

    h_t = A_k h_{t-1} ,   A_k[delta(q, k), q] = 1 ,   B = 0, h_0 = e_start

One dictionary matrix for each letter, N states; the router saturates, so that the mixture is that matrix to the last bit. Source:
SD-SSM (arXiv 2412.19350).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrack.automata import Automaton
from statetrack.models import ModelConfig
from statetrack.theory.construct.tagger import ExactTagger, blank, put, with_options
from statetrack.theory.construct.words import letter_columns, one_hot_head, start_first

_SATURATED = 128.0  # exp(-128) is 0 in single precision


def dense(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``sd-ssm``."""
    table = start_first(automaton)
    columns, maps = letter_columns(table)
    n, k = automaton.n_states, len(maps)
    size = max(n, 2)  # a norm over one state would always be 0
    fixed = {"d_state": size, "dictionary_size": k, "additive_input": False, "initial_state": "first"}
    config = ModelConfig(max(size, k), norm="none", layer=with_options(layer, fixed, options))
    model = ExactTagger(layer, automaton, config)
    inner = model.first
    blank(inner)
    put(model.embedding.weight, np.eye(k, config.d_model)[columns])
    put(inner.router.weight, _SATURATED * np.eye(k, config.d_model))
    dictionary = np.tile(np.eye(size), (k, 1, 1))
    dictionary[:, :, :n] = 0
    for letter, images in enumerate(maps):
        dictionary[letter, images, np.arange(n)] = 1
    put(inner.dictionary, dictionary)
    put(inner.norm.weight, 1.0)
    put(inner.out.weight, np.eye(config.d_model, size))
    one_hot_head(model, table)
    return model
