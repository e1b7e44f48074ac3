"""Tanh RNN: any automaton in one layer, by units that remember the last state and letter.

    h_t[q, k] = tanh(K (2 a_q + 2 [x_t = k] - 3)) ,   s_t = tanh(K)
    a_q = sum_{delta(p, j) = q} (h_{t-1}[p, j] + s_{t-1}) / 2 + (1 - s_{t-1}) [q = start]

Unit (q, k) is 1 where letter k was read in state q and -1 elsewhere; s is 0 before the first token and 1 afterwards, so that a_q
is 1 for the state before the token and 0 for others. Saturated, tanh is 1 to the last bit: small errors are put right.

Letters: q, p = states, j, k = letters, K = steepness. Source: M. Minsky, "Computation: finite and infinite machines", 1967.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrack.automata import Automaton
from statetrack.models import ModelConfig
from statetrack.theory.construct.tagger import ExactTagger, blank, put, with_options
from statetrack.theory.construct.words import letter_columns, one_hot_head, start_first

_STEEP = 16.0


def nonlinear(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``rnn``."""
    table = start_first(automaton)
    columns, maps = letter_columns(table)
    n, k = automaton.n_states, len(maps)
    units = n * k  # unit q * k + letter
    fixed = {"d_state": units + 1}
    config = ModelConfig(max(n, k), norm="none", layer=with_options(layer, fixed, options))
    model = ExactTagger(layer, automaton, config)
    inner = model.first
    blank(inner)
    leads = np.zeros((n, units + 1))  # a_q as a map of what the units hold
    leads[maps.T.ravel(), np.arange(units)] = 0.5
    leads[:, units] = leads.sum(axis=1)
    leads[0, units] -= 1
    recurrent, inputs, bias = np.zeros((units + 1, units + 1)), np.zeros((units + 1, config.d_model)), np.zeros(units + 1)
    recurrent[:units] = 2 * np.repeat(leads, k, axis=0)
    inputs[:units, :k] = 2 * np.tile(np.eye(k), (n, 1))
    bias[:units] = -3
    bias[:k] += 2
    bias[units] = 1
    put(inner.cell.weight_hh_l0, _STEEP * recurrent)
    put(inner.cell.weight_ih_l0, _STEEP * inputs)
    put(inner.cell.bias_ih_l0, _STEEP * bias)
    put(model.embedding.weight, np.eye(k, config.d_model)[columns])
    out = np.zeros((config.d_model, units + 1))
    out[maps.T.ravel(), np.arange(units)] = 0.5
    put(inner.out.weight, out)
    put(inner.out.bias, np.r_[out.sum(axis=1)])
    one_hot_head(model, table)
    return model
