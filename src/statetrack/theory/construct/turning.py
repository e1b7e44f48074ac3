"""Layers on the unit circle as counters: complex diagonal, Simple AUSSM and AUSSM.

    complex-diagonal   h <- exp(i theta) h from h = 1 ; a norm of (cos, sin) in the readout takes the drift of the modulus out
    simple-aussm       h <- exp(i theta) h from h = 1, theta rounded to the nearest allowed phase
    aussm              h <- exp(i theta) h + write from h = 0 ; a convolution over two tokens tells the first one, which writes

AUSSM writes ``s = (cos a, sin a) / 4`` with a = the angle of the first symbol, as two real drives. Its readout ``Re sum C_n h_n``
has the same C for all channels; with B = (1, i) and C = (1, 1), a channel whose second state turns backwards shows ``cos + sin``,
one whose states turn alike shows ``cos - sin``.

Letters: h = phasor, theta = its turn, a = angle, s = drive. Source: arXiv 2603.01959, arXiv 2507.05238; weights derived.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from statetrack.theory.construct.cascade import Cascade, Level, common_period, turns
from statetrack.theory.construct.counters import Told
from statetrack.theory.construct.tagger import SILU_ONE, put

_FAR = 128.0
"""``silu(-128)`` is 0 in single precision."""
_SMALL = 0.25
"""Drives are at most this large, since silu is never below -0.278."""
_ONE = math.log(math.expm1(1.0))
"""``softplus`` of it is 1."""
_OFF = -200.0


def angles(told: Told, n_phasors: int, width: int) -> np.ndarray[Any, Any]:
    """``(n_phasors, width)``: the angle that each bit of the stream turns each phasor by."""
    found = np.zeros((n_phasors, width))
    for j, m in enumerate(told.level.moduli):
        for column, coset in told.columns:
            found[j, column] = _nearest(int(turns(told.level)[coset, j]), m)
    return found


def _nearest(turn: int, m: int) -> float:
    """The single-precision angle near ``2 pi turn / m`` whose rounded cosine and sine lie closest to that direction."""
    exact = 2 * math.pi * abs(turn) / m
    start = np.float32(exact)
    around = (start.view(np.int32) + np.arange(-8, 9, dtype=np.int32)).view(np.float32) if turn else np.zeros(1, np.float32)
    z = torch.polar(torch.ones(len(around)), torch.as_tensor(around.copy())).to(torch.complex128).numpy()
    best = float(around[np.abs(np.angle(z * np.exp(-1j * exact))).argmin()])
    return math.copysign(best, turn)


class ComplexDiagonalCounter:
    """Phasor j is head j, with two equal states of which the norm makes ``(cos, sin)``."""

    parts, own_network = 2, False

    def options(self, cascade: Cascade) -> dict[str, Any]:
        return {
            "d_state": 2,
            "n_heads": max(len(level.moduli) for level in cascade.levels),
            "d_generator": "decay_phase",
            "modulus": "unit",
            "additive_input": False,
            "initial_state": "learned",
            "readout": "gated",
            "skip": False,
        }

    def width(self, level: Level) -> int:
        return 1

    def set(self, layer: Any, told: Told, output: int) -> None:
        heads, width, readout = layer.n_heads, layer.d_model, layer.readout
        start = np.zeros((heads, 2, 2))
        start[..., 0] = 1
        put(layer.start, start)
        put(layer.diagonal.phase.weight, np.repeat(angles(told, heads, width), 2, axis=0))
        selector = np.zeros((2, heads, 2, width))
        selector[0, :, 0, told.one], selector[1, :, 1, told.one] = 1, -1
        put(readout.selector.weight, selector.reshape(-1, width))
        gate = np.zeros((2 * heads, width))
        gate[:, told.one] = SILU_ONE
        put(readout.gate.weight, gate)
        put(readout.head_norm.weight, math.sqrt(0.5))
        used = 2 * len(told.level.moduli)
        out = np.zeros((width, 2 * heads))
        out[output : output + used, :used] = np.eye(used)
        put(readout.out.weight, out)


class SimpleAUSSMCounter:
    """Phasor j is state j; the decoder is the network."""

    parts, own_network = 2, True

    def options(self, cascade: Cascade) -> dict[str, Any]:
        n_states = max(len(level.moduli) for level in cascade.levels)
        return {"d_state": n_states, "additive_input": False, "phase_levels": common_period(cascade)}

    def width(self, level: Level) -> int:
        return 1

    def set(self, layer: Any, told: Told, output: int) -> None:
        put(layer.phase.linear.weight, angles(told, layer.d_state, layer.d_model))


class AUSSMCounter:
    """Four channels for each phasor: (alike, backwards) for the cosine and for the sine of the first angle."""

    parts, own_network = 2, False

    def options(self, cascade: Cascade) -> dict[str, Any]:
        return {"d_state": 2, "d_conv": 2, "phase_levels": common_period(cascade)}

    def width(self, level: Level) -> int:
        return level.n_classes - 1 + 4 * len(level.moduli)

    def set(self, layer: Any, told: Told, output: int) -> None:
        level, width = told.level, layer.d_model
        bits = level.n_classes - 1
        project = np.zeros((2 * width, width))
        weight, bias = np.zeros((width, 2)), np.zeros(width)
        for column, coset in told.columns:
            if coset:
                project[coset - 1, column] = 1
        weight[:bits, 1] = 1
        project[width:, told.one] = SILU_ONE
        theta = np.zeros((width, 2, width))
        out = np.zeros((width, width))
        step = np.full(width, _OFF)
        for j, m in enumerate(level.moduli):
            turn = 2 * math.pi * turns(level)[1:, j] / m
            drive = np.stack([inverse_silu(_SMALL * np.cos(np.r_[0, turn])), inverse_silu(_SMALL * np.sin(np.r_[0, turn]))])
            for part in (0, 1):
                for way in (0, 1):
                    channel = bits + 4 * j + 2 * part + way
                    first_token(project, weight, bias, channel, told, drive[part])
                    theta[channel, 0, :bits] = turn
                    theta[channel, 1, :bits] = -turn if way else turn
                    step[channel] = _ONE
            alike, backwards = bits + 4 * j, bits + 4 * j + 1
            # h = h_cos + i h_sin, where a pair of channels shows (cos - sin, cos + sin).
            cosine, sine = output + 2 * j, output + 2 * j + 1
            out[cosine, [alike, backwards, alike + 2, backwards + 2]] = [0.5, 0.5, 0.5, -0.5]
            out[sine, [alike, backwards, alike + 2, backwards + 2]] = [-0.5, 0.5, 0.5, 0.5]
        put(layer.in_proj.weight, project)
        put(layer.conv.weight, weight)
        put(layer.conv.bias, bias)
        put(layer.dt_proj.bias, step)
        put(layer.phase.linear.weight, theta.reshape(2 * width, width) / layer.phase.scale)
        put(layer.B, [[_ONE, 0.0], [_ONE, math.pi / 2]])
        put(layer.C, [[_ONE, 0.0], [_ONE, 0.0]])
        put(layer.out_proj.weight, out / _SMALL)


def first_token(
    project: np.ndarray[Any, Any],
    weight: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any],
    channel: int,
    told: Told,
    drive: np.ndarray[Any, Any],
) -> None:
    """Make a channel of a convolution over two tokens equal ``drive[coset]`` at the first token and about -128 at all others.

    ``p_t - p_{t-1} - 128`` with ``p_t = 128 + drive``: before the first token there is no p.
    """
    project[channel, told.one] = _FAR + drive[0]
    for column, coset in told.columns:
        project[channel, column] += drive[coset] - drive[0]
    weight[channel] = [-1, 1]
    bias[channel] = -_FAR


def inverse_silu(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The arguments above -1.278 at which ``z sigmoid(z)`` takes values of at least -0.278."""
    low, high = np.full(np.shape(values), -1.2784645), np.maximum(np.asarray(values), 0) + 2.0
    for _ in range(80):
        middle = (low + high) / 2
        below = middle / (1 + np.exp(-middle)) < values
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
