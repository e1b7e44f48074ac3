"""One row of one-hot transitions on several threads: the row is cut into stretches, in the three phases of the GPU kernels.

    1   the first stretch is walked as ever; of each other one but the last, the product of its transitions is formed
    2   the states that enter the stretches follow one from another
    3   all stretches but the first are walked, each from the state that enters it

With P threads there are P + 1 stretches, and every thread has one thing to do in phases 1 and 3. A product costs ``c`` times as
much per token as a walk, so the first stretch is ``c`` times as long as the others: the whole takes ``(1 + c) / (P + c)`` of the
time of one thread. The backward pass does the same from the right. States differ from those of one thread by rounding where
diagonals are multiplied first, and not at all where they are 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from statetrack.scan.cpu import composite_loops, loops
from statetrack.scan.cpu.threads import LEAST, at_once

Flat = np.ndarray[Any, Any]

_COST = {("column", True): 1.4, ("column", False): 0.8, ("row", True): 1.8, ("row", False): 1.1}
"""Of a product over a walk, forward, by form and whether there are inputs; measured."""

_COST_BACK = {"column": 0.6, "row": 0.8}


def n_stretches(n_rows: int, n_heads: int, n_states: int) -> int:
    """How many threads share each head of a row; 1 where heads and rows are enough for all."""
    n_threads = min(torch.get_num_threads(), n_states // LEAST)
    return n_threads if n_rows == 1 and n_heads < n_threads else 1


@dataclass(frozen=True)
class Row:
    """The transitions of one row, flat: ``maps`` and ``rows`` as in ``loops``, ``value`` and ``inputs`` per token.

    Attributes:
        n_threads: P.
    """

    column: bool
    maps: Flat
    rows: Flat
    value: Flat
    inputs: Flat
    n_heads: int
    n: int
    n_threads: int

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.value) // (self.n_heads * self.n)

    @property
    def form(self) -> str:
        """``"column"`` or ``"row"``."""
        return "column" if self.column else "row"

    def forward(self, with_inputs: bool, states: Flat, final: Flat) -> None:
        """``final`` holds the initial state on entry and the final one on return."""
        cuts = self._cuts(_COST[self.form, with_inputs])
        entering = [final] + [np.empty_like(final) for _ in cuts[1:]]

        def walk(i: int) -> None:
            state, ends = entering[i].copy(), np.array(cuts[i : i + 2])
            loops.one_hot_forward(
                self.column, *self._maps, self.value, self.inputs, with_inputs, ends, *self._sizes, states, state, 0, self.n_heads
            )
            self._leave(i, state, entering)

        def product(i: int, *out: Flat) -> int:
            span = cuts[i], cuts[i + 1]
            return composite_loops.composite_forward(
                self.column, *self._maps, self.value, self.inputs, with_inputs, *self._sizes, *span, *out
            )

        self._run(walk, product, entering, self.column)
        final[:] = entering[-1]

    def backward(self, states: Flat, initial: Flat, g_states: Flat, carry: Flat, g_value: Flat, g_inputs: Flat | None) -> None:
        """``carry`` as in ``loops.one_hot_backward``."""
        cuts = [self.length - cut for cut in self._cuts(_COST_BACK[self.form])]
        entering = [carry] + [np.empty_like(carry) for _ in cuts[1:]]
        width = self.n_heads * self.n

        def walk(i: int) -> None:
            state, stop = entering[i].copy(), cuts[i + 1]
            before = states[(stop - 1) * width : stop * width] if stop else initial
            out = np.empty_like(state) if g_inputs is None else g_inputs
            given = self.value, states, before, np.array([stop, cuts[i]]), *self._sizes, g_states, state, g_value, out
            loops.one_hot_backward(self.column, *self._maps, *given, g_inputs is not None, 0, self.n_heads)
            self._leave(i, state, entering)

        def product(i: int, *out: Flat) -> int:
            span = cuts[i + 1], cuts[i]
            return composite_loops.composite_backward(self.column, *self._maps, self.value, g_states, *self._sizes, *span, *out)

        self._run(walk, product, entering, not self.column)
        carry[:] = entering[-1]

    @property
    def _maps(self) -> tuple[Flat, Flat]:
        return self.maps, self.rows

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.n_heads, self.n

    def _cuts(self, cost: float) -> list[int]:
        """Borders of P + 1 stretches in the order of the walk."""
        unit = self.length / (self.n_threads + cost)
        return [0, *(round((cost + i) * unit) for i in range(self.n_threads)), self.length]

    def _leave(self, i: int, state: Flat, entering: list[Flat]) -> None:
        """Keep what stretch ``i`` leaves, unless phase 2 has said so already: the next one may be reading it."""
        if i in (0, self.n_threads):
            entering[i + 1][:] = state

    def _run(self, walk: Callable[[int], None], product: Callable[..., int], entering: list[Flat], scatters: bool) -> None:
        """``entering[0]`` is given; the one behind it is what stretch 0 leaves, and so on."""
        between = range(1, self.n_threads)
        size = 2 * self.n_heads * self.n
        room = {i: (np.empty(size, np.int32), *(np.empty(size, self.value.dtype) for _ in range(2))) for i in between}
        _, *sides = at_once([partial(walk, 0), *(partial(product, i, *room[i]) for i in between)])
        for i, side in zip(between, sides, strict=True):
            composite_loops.apply_composite(scatters, *room[i], side, *self._sizes, entering[i], entering[i + 1])
        at_once([partial(walk, i) for i in range(1, self.n_threads + 1)])
