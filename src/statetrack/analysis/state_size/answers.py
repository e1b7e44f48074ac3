"""The smallest PD model with the same answers: its automaton, minimised, written back into its layer.

One head, whose state is a unit vector throughout, makes a model of one layer an automaton over its tokens: state i goes to
``pi_v(i)`` under token v, where the class ``c(i, v)`` is answered. Two states with the same answers to all words are one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrack.analysis.state_size.merging import quotient
from statetrack.analysis.state_size.partitions import coarsest, reachable
from statetrack.errors import InvalidInputError
from statetrack.layers.flash_pd_ssm import FlashPDSSM
from statetrack.models import Tagger
from statetrack.models.blocks import Block
from statetrack.structures import ColumnOneHot


def minimise_model(model: Tagger, tokens: Sequence[int] | None = None) -> Tagger:
    """A model with as few states as its answers need; it gives the same class to every prefix of every word of ``tokens``.

    Scores may differ; the classes with the largest ones do not.

    Args:
        model: one block with a Flash PD-SSM of one head in column orientation, without additive input, started in one state, and
            with a diagonal of ones (``d_field="real"``, ``modulus="unit"``).
        tokens: those that words are made of; None means all.

    Raises:
        InvalidInputError: another model, with what is in the way.

    Example:
        >>> from statetrack.models import ModelConfig
        >>> options = {"d_state": 8, "dictionary_size": 2, "d_field": "real", "modulus": "unit", "additive_input": False}
        >>> model = Tagger("flash-pd-ssm", 2, 2, ModelConfig(d_model=4, layer=options)).eval()
        >>> minimise_model(model).layers[0].d_state <= 8
        True
    """
    layer = _fitting(model)
    used = list(range(model.vocab_size)) if tokens is None else sorted(set(tokens))
    if not used or not 0 <= min(used) <= max(used) < model.vocab_size:
        raise InvalidInputError(f"tokens must lie in 0..{model.vocab_size - 1} and not be empty; got {used}.")
    was_training = model.training
    model.eval()
    try:
        maps, answered = _machine(model, layer, torch.tensor(used))
    finally:
        model.train(was_training)
    kept = reachable(maps, layer.start[0, :, 0].numpy() != 0)
    place = np.full(layer.d_state, -1)
    place[kept] = np.arange(len(kept))
    _, labels = np.unique(answered[kept], axis=0, return_inverse=True)
    classes = coarsest(place[maps[:, kept]], labels.ravel().astype(np.int64))
    smaller = copy.deepcopy(model)
    block = smaller.blocks[0]
    assert isinstance(block, Block)
    block.layer = quotient(layer, [[kept[classes == j].tolist() for j in range(classes.max() + 1)]])
    return smaller


def _fitting(model: Tagger) -> FlashPDSSM:
    layers = model.layers
    layer = layers[0]
    if len(layers) != 1 or not isinstance(layer, FlashPDSSM) or model.decoder is not None:
        raise InvalidInputError("minimise_model takes a model of one Flash PD-SSM block that answers at each position.")
    diagonal = layer.diagonal
    in_the_way = [
        what
        for what, there in (
            ("more than one head", layer.n_heads != 1),
            ("row orientation", layer.orientation != "column"),
            ("a gated readout", layer.readout.kind == "gated"),
            ("additive input", layer.input is not None),
            ("a trained start", isinstance(layer.start, torch.nn.Parameter)),
            ("a diagonal that is not 1", diagonal.magnitude is not None or diagonal.phase is not None),
        )
        if there
    ]
    if in_the_way:
        raise InvalidInputError(
            f"The state of this model is not one of finitely many unit vectors: it has {', '.join(in_the_way)}."
        )
    return layer


@torch.no_grad()
def _machine(model: Tagger, layer: FlashPDSSM, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Maps ``(V, N)`` of the tokens, and the class answered in every state after each token, ``(N, V)``."""
    n, v = layer.d_state, len(tokens)
    each = torch.eye(n, dtype=layer.scores.dtype).repeat_interleave(v, dim=0).view(n * v, 1, 1, n)
    seen: list[Tensor] = []

    def read_there(module: Any, args: Any, output: Any) -> Any:
        seen.append(args[0])
        return module.readout(each, args[0]), output[1]

    hook = layer.register_forward_hook(read_there)
    try:
        scores, _ = model(tokens.repeat(n).unsqueeze(1))
    finally:
        hook.remove()
    transitions = layer.transitions(seen[0][:v])
    assert isinstance(transitions, ColumnOneHot)
    return transitions.index[:, 0, 0].numpy().astype(np.int64), scores[:, 0].argmax(-1).view(n, v).numpy()
