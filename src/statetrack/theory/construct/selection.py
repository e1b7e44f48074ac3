"""PD-SSM and Flash PD-SSM: any automaton in one layer.

    x_t = P_k x_{t-1} ,   P_k[delta(q, k), q] = 1 ,   D = 1, B = 0, x_0 = e_start

One dictionary matrix for each letter, N states. Source: PD-SSM (arXiv 2509.22284), Flash PD-SSM (arXiv 2605.19150).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from statetrack.automata import Automaton
from statetrack.models import ModelConfig
from statetrack.theory.construct.tagger import ExactTagger, blank, put, with_options
from statetrack.theory.construct.words import letter_columns, one_hot_head, start_first


def selection(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``pd-ssm`` or ``flash-pd-ssm``."""
    table = start_first(automaton)
    columns, maps = letter_columns(table)
    n, k = automaton.n_states, len(maps)
    fixed = {
        "d_state": n,
        "dictionary_size": k,
        "orientation": "column",
        "d_field": "real",
        "modulus": "unit",
        "additive_input": False,
        "initial_state": "first",
        "readout": "affine",
        "skip": False,
    }
    config = ModelConfig(max(n, k), norm="none", layer=with_options(layer, fixed, options))
    model = ExactTagger(layer, automaton, config)
    inner = model.first
    blank(inner)
    put(model.embedding.weight, np.eye(k, config.d_model)[columns])
    # A mixture over K matrices is decided by the letter's own from a logit of log(K - 1) on.
    put(inner.router.weight, (math.log(k) + 4) * np.eye(k, config.d_model))
    scores = np.zeros((1, k, n, n))
    for letter, images in enumerate(maps):
        scores[0, letter, images, np.arange(n)] = 1
    put(inner.scores, scores)
    put(inner.readout.out.weight, np.eye(config.d_model, n))
    one_hot_head(model, table)
    return model
