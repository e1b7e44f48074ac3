"""Negative Mamba as a counter of signs: groups whose order is a power of 2.

    keep:  dt = 0   lambda = 2 exp(0) - 1 = 1        flip:  dt = T   lambda = 2 exp(-T) - 1 = -1 in single precision
    h <- lambda h from h = 0 ; a convolution over two tokens tells the first one, which writes 1 or -1

The first token's step dt is T or 3 T by whether it flips; the value that it writes makes up for that.

Letters: lambda = eigenvalue, dt = time step, T = a large one. Source: arXiv 2603.01959, arXiv 2411.12537; weights derived.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrack.theory.construct.cascade import Cascade, Level
from statetrack.theory.construct.counters import Told
from statetrack.theory.construct.tagger import SILU_ONE, put
from statetrack.theory.construct.turning import first_token, inverse_silu

_LONG = 128.0
_VALUE = 0.24


class NegativeMambaCounter:
    """Channel j is the sign of factor j; others hold what the layer is told, the start, and 1."""

    parts, own_network = 1, False

    def options(self, cascade: Cascade) -> dict[str, Any]:
        rank = max(len(level.moduli) for level in cascade.levels)
        return {"d_state": 1, "expand": 1, "d_conv": 2, "dt_rank": rank}

    def width(self, level: Level) -> int:
        return level.n_classes - 1 + len(level.moduli) + 2

    def set(self, layer: Any, told: Told, output: int) -> None:
        level, width, rank = told.level, layer.d_model, layer.dt_rank
        bits, n_factors = level.n_classes - 1, len(level.moduli)
        starts, ones = bits + n_factors, bits + n_factors + 1
        project = np.zeros((2 * width, width))
        weight, bias = np.zeros((width, 2)), np.zeros(width)
        weight[:bits, 1] = weight[ones, 1] = 1
        for column, coset in told.columns:
            if coset:
                project[coset - 1, column] = SILU_ONE
        project[ones, told.one] = SILU_ONE
        project[width:, told.one] = SILU_ONE
        first_token(project, weight, bias, starts, told, np.full(level.n_classes, SILU_ONE))
        select = np.zeros((rank + 2, width))
        time = np.zeros((width, rank))
        for j in range(n_factors):
            flips = level.residues[:, j] % 2 == 1
            values = inverse_silu(np.where(flips, -_VALUE / 3, _VALUE))
            first_token(project, weight, bias, bits + j, told, values)
            select[j, :bits] = flips[1:]
            select[j, starts] = 1
            time[bits + j, j] = 2 * _LONG
        select[rank, ones] = 1 / (_LONG * _VALUE)
        select[rank + 1, ones] = 1
        put(layer.in_proj.weight, project)
        put(layer.conv.weight, weight)
        put(layer.conv.bias, bias)
        put(layer.x_proj.weight, select)
        put(layer.dt_proj.weight, time)
        put(layer.dt_proj.bias, -_LONG)
        out = np.zeros((width, width))
        out[output : output + n_factors, bits : bits + n_factors] = np.eye(n_factors)
        put(layer.out_proj.weight, out)
