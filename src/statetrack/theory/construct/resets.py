"""Mamba and Mamba-2: automata whose letters keep the state or set it (flip-flops), in one layer.

    keep:   dt = 0      h <- h
    set q:  dt = T      h <- exp(-T) h + T B e_q = e_q ,   exp(-T) = 0 in single precision

Channel q holds whether the state was set to q; before the first such letter all are 0, and a bias of the head favours the start.

Letters: dt = time step, T = a large one, B = write. Source: derived; arXiv 2405.17394 for what such layers track.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError
from statetrack.layers.mamba2 import Mamba2
from statetrack.models import ModelConfig
from statetrack.theory.construct.tagger import SILU_ONE, ExactTagger, blank, put, with_options

_LONG = 128.0


def resets(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``mamba`` or ``mamba2``.

    Raises:
        InvalidInputError: a symbol that neither keeps nor sets the state.
    """
    n, v = automaton.n_states, automaton.n_symbols
    target = np.full(v, -1)
    for symbol, images in enumerate(automaton.transitions.T):
        if (images == images[0]).all():
            target[symbol] = images[0]
        elif (images != np.arange(n)).any():
            raise InvalidInputError(
                f"The construction for {layer} needs symbols that keep the state or set it; symbol {symbol} does neither."
            )
    # Input columns: the state that is set, whether one is, and 1.
    e = n + 2
    sets = target >= 0
    embedding = np.zeros((v, e))
    embedding[np.flatnonzero(sets), target[sets]] = 1
    embedding[:, n] = sets
    embedding[:, n + 1] = 1
    fixed: dict[str, Any] = {"d_state": 1, "expand": 1, "d_conv": 1}
    fixed |= {"d_head": e} if layer == "mamba2" else {"dt_rank": 1}
    config = ModelConfig(e, norm="none", layer=with_options(layer, fixed, options))
    model = ExactTagger(layer, automaton, config)
    inner = model.first
    blank(inner)
    put(model.embedding.weight, embedding)
    put(inner.conv.weight, 1.0)
    if isinstance(inner, Mamba2):
        rows = np.zeros((3 * e + 3 - e, e))
        rows[:e, n + 1] = SILU_ONE  # gate
        rows[e : 2 * e] = SILU_ONE * np.eye(e)  # values
        rows[2 * e : 2 * e + 2, n + 1] = SILU_ONE  # B, C
        rows[2 * e + 2, n] = 2 * _LONG
        put(inner.in_proj.weight, rows)
        put(inner.dt_bias, -_LONG)
        put(inner.norm.weight, 1.0)
    else:
        put(inner.in_proj.weight, np.concatenate([SILU_ONE * np.eye(e), SILU_ONE * np.eye(e)[[n + 1] * e]]))
        wanted = np.zeros((3, e))
        wanted[0, n] = 1
        wanted[1:, n + 1] = 1
        put(inner.x_proj.weight, wanted)
        put(inner.dt_proj.weight, 2 * _LONG)
        put(inner.dt_proj.bias, -_LONG)
    out = np.zeros((e, e))
    out[:n, :n] = np.eye(n) / (_LONG if layer == "mamba" else 1)
    put(inner.out_proj.weight, out)
    head = np.zeros((model.n_classes, e))
    head[automaton.outputs, np.arange(n)] = 1
    put(model.head.weight, head)
    bias = np.zeros(model.n_classes)
    bias[automaton.outputs[automaton.start]] = 0.5
    put(model.head.bias, bias)
    return model
