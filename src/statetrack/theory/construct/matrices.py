"""Layers whose state is a matrix: DeltaNet, DeltaProduct, Complex KDA and block-diagonal SLiCE.

    S_t = A_{x_t} S_{t-1} ,   S_0 = I ,   A orthogonal, one for each symbol

d heads read the d rows of S (SLiCE: d blocks hold its columns), all of which the head compares with the products it knows.

    deltanet, deltaproduct   A = product of reflections I - 2 k k^T     (one for DeltaNet)
    complex-kda              A = (I - 2 k k^T) Diag(signs)
    slice                    A of permutations, or of any automaton's 0/1 matrices on its states

Letters: S = state, A = transitions, k = keys, d = size. Source: arXiv 2502.10297, arXiv 2609.24797, arXiv 2505.17761.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from statetrack.automata import Automaton, Group
from statetrack.automata.arrays import IntArray
from statetrack.errors import InvalidInputError
from statetrack.models import ModelConfig
from statetrack.models.blocks import Block
from statetrack.theory.construct.decode import Linear, class_gates, linear_scores
from statetrack.theory.construct.gates import Gates
from statetrack.theory.construct.orbit import orbit
from statetrack.theory.construct.reflections import key_inputs, reflections, signed_reflection
from statetrack.theory.construct.representations import (
    Array,
    permutation_matrices,
    polygon,
    quaternion_product,
    quaternions,
    smallest_action,
    solid,
    zero_sum,
)
from statetrack.theory.construct.tagger import ExactTagger, blank, put, with_options
from statetrack.theory.construct.words import permutation_group, start_first

_SATURATED = 128.0  # sigmoid(-128) is 0 and sigmoid(128) is 1 in single precision
_LARGE = 4096.0  # keys of this length are divided by it to the last bit


def householder(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``deltanet`` or ``deltaproduct``.

    Raises:
        InvalidInputError: no permutation automaton, or for DeltaNet a symbol that takes more than one reflection.
    """
    found = []
    for matrices in _orthogonal(automaton):
        steps = [reflections(m) for m in matrices]
        found.append((max(1, *(len(s) for s in steps)), steps, matrices))
    n_steps, steps, matrices = min(found, key=lambda f: f[0])
    if layer == "deltanet" and n_steps > 1:
        raise InvalidInputError(
            f"One DeltaNet layer makes one reflection of each symbol, and here some symbol takes {n_steps} in the "
            "representations that were tried; deltaproduct makes several."
        )
    d, v = matrices.shape[-1], len(matrices)
    keys, strengths = np.zeros((n_steps, v, d)), np.full((n_steps, v), -_SATURATED)
    keys[..., 0] = _LARGE
    for symbol, normals in enumerate(steps):
        for j, normal in enumerate(reversed(normals)):  # the last factor acts first
            keys[j, symbol], strengths[j, symbol] = key_inputs(normal, _LARGE), _SATURATED
    fixed = _rows(d) | {"negative_eigenvalues": True}
    fixed |= {"n_householder": n_steps} if layer == "deltaproduct" else {}
    model = _assemble(layer, automaton, *_prototypes(automaton, matrices), fixed, options)
    inner = model.first
    width = model.config.d_model
    key_weight, strength = np.zeros((n_steps, d, d, width)), np.zeros((n_steps, d, width))
    key_weight[..., :v] = keys.transpose(0, 2, 1)[:, None]
    strength[..., :v] = strengths[:, None]
    put(inner.heads.k_proj.weight, key_weight.reshape(-1, width))
    put(inner.strength.b_proj.weight, strength.reshape(-1, width))
    _read_rows(model, d)
    return model


def signed(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``complex-kda``.

    Raises:
        InvalidInputError: no permutation automaton, or one of another group than Z_n, D_n, A_4, S_4 and A_5.
    """
    group, maps = permutation_group(automaton)
    factors, matrices = None, np.zeros((0, 1, 1))
    for candidate in _turning(group):
        matrices = candidate[maps]
        factors = [signed_reflection(m) for m in matrices]
        if all(f is not None for f in factors):
            break
    else:
        raise InvalidInputError("The construction for complex-kda knows cyclic and dihedral groups, A4, S4 and A5.")
    assert factors is not None
    d = matrices.shape[-1]
    model = _assemble(layer, automaton, *_prototypes(automaton, matrices), _rows(d) | {"doubled_beta": True}, options)
    inner, width = model.first, model.config.d_model
    key_weight, decay, strength = np.zeros((d, d, width)), np.zeros((d, width)), np.zeros((d, width))
    for symbol, factor in enumerate(factors):
        assert factor is not None
        normal, signs = factor
        moves = bool(normal.any())
        key_weight[:, :, symbol] = _LARGE * (normal if moves else np.eye(d)[0])
        strength[:, symbol] = _SATURATED if moves else -_SATURATED
        decay[:, symbol] = _SATURATED * signs
    put(inner.heads.k_proj.weight, key_weight.reshape(-1, width))
    put(inner.strength.weight, strength)
    put(inner.decay.project[0].weight, decay)
    put(inner.decay.project[1].weight, np.tile(np.eye(d), (d, 1)))
    _read_rows(model, d)
    return model


def blocks(layer: str, automaton: Automaton, options: dict[str, Any]) -> ExactTagger:
    """Weights of ``slice``: permutations of few points if their matrices are smaller than the automaton, else its states."""
    table = start_first(automaton)
    maps = table.transitions.T
    n = table.n_states
    columns, matrices = np.eye(n)[:, :1], permutation_matrices(maps)
    prototypes, classes = np.eye(n), table.outputs
    if (np.sort(maps, axis=1) == np.arange(n)).all():
        group, ids = permutation_group(table)
        action = smallest_action(group)
        if action.shape[1] ** 2 < n:
            columns, matrices = np.eye(action.shape[1]), permutation_matrices(action[ids])
            found, states = orbit(table, matrices)
            prototypes, classes = found.transpose(0, 2, 1).reshape(len(found), -1), table.outputs[states]
    b, copies = columns.shape
    fixed = {"kind": "block-diagonal", "d_state": b * copies, "block_size": b, "time_step": 1.0}
    model = _assemble(layer, table, prototypes, classes, fixed, options)
    model.automaton = automaton
    inner, width, v = model.first, model.config.d_model, table.n_symbols
    field, start = np.zeros((copies * b * b, width)), np.zeros((b * copies, width))
    field[:, :v] = np.tile((matrices - np.eye(b)).reshape(v, -1).T, (copies, 1))
    start[:, :v] = (matrices @ columns).transpose(2, 1, 0).reshape(b * copies, v)
    put(inner.field.linear.weight, field)
    put(inner.start.weight, start)
    put(inner.out.weight, np.eye(width, b * copies))
    return model


def _orthogonal(automaton: Automaton) -> list[Array]:
    """Matrices ``(n_symbols, d, d)`` in several faithful representations of the group of the symbols, the smallest first."""
    group, maps = permutation_group(automaton)
    found = [m for m in (polygon(group), solid(group)) if m is not None]
    return [m[maps] for m in [*found, zero_sum(smallest_action(group))]]


def _turning(group: Group) -> list[Array]:
    """Matrices for the elements of a group, among them those that Complex KDA can make."""
    found = [m for m in (polygon(group), solid(group)) if m is not None]
    lifts = quaternions(group)
    if lifts is not None:  # the quaternion q acts as x -> q x q
        found.append(np.stack([quaternion_product(quaternion_product(lifts, e), lifts) for e in np.eye(4)], axis=-1))
    return found


def _prototypes(automaton: Automaton, matrices: Array) -> tuple[Array, IntArray]:
    found, states = orbit(automaton, matrices)
    return found.reshape(len(found), -1), automaton.outputs[states]


def _rows(d: int) -> dict[str, Any]:
    """Options of a layer of the delta family whose heads hold the same state and read one row each."""
    return {
        "n_heads": d,
        "d_head": d,
        "expand_v": 1,
        "short_conv": False,
        "output_gate": False,
        "additive_input": False,
    }


def _assemble(
    layer: str, automaton: Automaton, prototypes: Array, classes: IntArray, fixed: dict[str, Any], options: dict[str, Any]
) -> ExactTagger:
    """One layer, blank, whose output is one of the prototypes, and what reads their classes."""
    decoder: Linear | Gates | None = linear_scores(prototypes, classes, automaton.n_outputs)
    decoder = class_gates(prototypes, classes) if decoder is None else decoder
    width, hidden = max(automaton.n_symbols, prototypes.shape[1]), 0
    if isinstance(decoder, Gates):
        width = max(width, automaton.n_outputs)
        hidden = -(-decoder.size // width)
    config = ModelConfig(width, norm="none", feedforward=hidden, layer=with_options(layer, fixed, options))
    model = ExactTagger(layer, automaton, config)
    blank(model.layers[0])
    put(model.embedding.weight, np.eye(automaton.n_symbols, width))
    head = np.zeros((automaton.n_outputs, width))
    if isinstance(decoder, Gates):
        block = model.blocks[0]
        assert isinstance(block, Block) and isinstance(block.feedforward, nn.Sequential)
        decoder.write(block.feedforward)
        head[:, : automaton.n_outputs] = np.eye(automaton.n_outputs)
    else:
        head[:, : prototypes.shape[1]] = decoder.weight
        put(model.head.bias, decoder.bias)
    put(model.head.weight, head)
    return model


def _read_rows(model: ExactTagger, d: int) -> None:
    """Head i reads row i of the state; the norm gives it length 1."""
    inner, width = model.first, model.config.d_model
    put(inner.heads.q_proj.weight, _LARGE * np.eye(d).reshape(-1, 1) * np.ones(width))
    put(inner.readout.norm.weight, d**-0.5)
    put(inner.readout.out.weight, np.eye(width, d * d))
