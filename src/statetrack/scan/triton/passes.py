"""The launches of one scan, forward and backward, on flat tokens.

Letters: T = tokens, S = sequences, H = heads, N = states per head, R = maps, M = chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from statetrack.scan.triton import kernels, maps
from statetrack.scan.triton.launch import WARP_STATES, Argument, Launch, block_of, rows_of, warps_of
from statetrack.scan.triton.spans import Spans, spans

Form = Literal["diagonal", "column", "row"]

_FORWARD = {"diagonal": "diagonal", "column": "scatter", "row": "gather"}
_ADJOINT = {"diagonal": "diagonal", "column": "gather", "row": "scatter"}


@dataclass(frozen=True)
class Problem:
    """The transitions of a scan and how it is cut.

    Attributes:
        value: ``(T, H, N)`` diagonal, real or complex.
        form: how states move before or after they are multiplied.
        sequences: their chunks.
        state_dtype: of states, final states and everything in between.
        maps: ``(R, N)`` int16, or None for diagonal scans.
        routes: ``(T, H)`` integers, which of a head's ``R / H`` maps a token takes; None if there is one map per token and head.
    """

    value: Tensor
    form: Form
    sequences: Spans
    state_dtype: torch.dtype
    maps: Tensor | None = None
    routes: Tensor | None = None

    @property
    def n_heads(self) -> int:
        """H."""
        return self.value.shape[1]

    @property
    def width(self) -> int:
        """States of one program: N, or a block of channels for diagonal scans."""
        return self.value.shape[-1] if self.form != "diagonal" else min(WARP_STATES, block_of(self.channels))

    @property
    def channels(self) -> int:
        """H N."""
        return self.value.shape[1] * self.value.shape[2]

    def empty(self, n_rows: int) -> Tensor:
        """``(n_rows, H, N)`` in the dtype of states."""
        return torch.empty(n_rows, *self.value.shape[1:], dtype=self.state_dtype, device=self.value.device)

    def tokens(self, name: str, x: Tensor | None) -> dict[str, Argument]:
        """A tensor of numbers per token, with strides."""
        if x is None:
            return {name: None, f"{name}_t": 0, f"{name}_h": 0}
        if self.form != "diagonal":
            x = rows_of(x)
            return {name: x, f"{name}_t": x.stride(0), f"{name}_h": x.stride(1)}
        x = rows_of(x.flatten(1))
        return {name: x, f"{name}_t": x.stride(0), f"{name}_h": self.width}

    def constants(self, move: str) -> dict[str, object]:
        """Compile-time arguments that all kernels take."""
        return {
            "FORM": move,
            "COMPLEX": self.value.is_complex(),
            "PACKED": self.sequences.offsets is not None,
            "WIDTH": self.width,
            "BLOCK": block_of(self.width),
        }

    def launch(self, kernel: object, n_rows: int, arguments: dict[str, Argument], constants: dict[str, object]) -> Launch:
        """A launch over ``n_rows`` chunks or sequences and all heads."""
        n_programs = -(-self.channels // self.width) if self.channels else 0
        return Launch(kernel, (n_rows, n_programs), arguments, constants, warps_of(block_of(self.width)))


class _Plan:
    """Room for the plans of ``n`` maps."""

    def __init__(self, like: Tensor, n: int, width: int) -> None:
        self.source = torch.empty(n, width, dtype=torch.int16, device=like.device)
        self.last = torch.full((n, width), -1, dtype=torch.int16, device=like.device)
        self.whole = torch.empty(n, dtype=torch.int32, device=like.device)

    def arguments(self, prefix: str = "") -> dict[str, Argument]:
        return {f"{prefix}source": self.source, f"{prefix}last": self.last, f"{prefix}whole": self.whole}


_NO_PLAN: dict[str, Argument] = {"source": None, "last": None, "whole": None}


def _maps(problem: Problem, move: str) -> tuple[dict[str, Argument], list[Launch]]:
    """Arguments that name the maps, and what has to run before they are read."""
    n_entries = 0 if problem.routes is None or problem.maps is None else len(problem.maps) // max(problem.n_heads, 1)
    arguments: dict[str, Argument] = {"maps": problem.maps, "routes": problem.routes, "entries": n_entries, **_NO_PLAN}
    if move != "scatter" or problem.maps is None:
        return arguments, []
    n, width = problem.maps.shape
    plan = _Plan(problem.maps, n, width)
    constants = {"WIDTH": width, "BLOCK": block_of(width)}
    launch = Launch(maps.plan, (n,), {"maps": problem.maps, **plan.arguments()}, constants, warps_of(block_of(width)))
    return arguments | plan.arguments(), [launch]


def _entering(
    problem: Problem, move: str, reverse: bool, walk: dict[str, Argument], inputs: dict[str, Argument], start: Tensor
) -> tuple[Tensor, list[Launch]]:
    """The state that enters every chunk from the side the walk comes from: phases 1 and 2."""
    cut = problem.sequences
    if cut.single:
        return start, []
    constants = problem.constants(move) | {"REVERSE": reverse, "HAS_INPUTS": inputs["inputs"] is not None}
    value, affine, out = (problem.empty(cut.n_chunks) for _ in range(3))
    if cut.offsets is not None:
        out.zero_()  # Chunks behind the last document are nobody's, and what is handed out must not be arbitrary.
    index: Tensor | None = None
    plan: dict[str, Argument] = _NO_PLAN
    if move == "gather":
        index = torch.empty(value.shape, dtype=torch.int16, device=value.device)
    if move == "scatter":
        plan = _Plan(value, cut.n_chunks * problem.n_heads, problem.width).arguments()
    outputs = {"out_index": index, "out_value": value, "out_inputs": affine} | {f"out_{k}": v for k, v in plan.items()}
    first = problem.launch(
        kernels.composites, cut.n_chunks, walk | inputs | outputs, constants | {"ROUTED": problem.routes is not None}
    )
    arguments: dict[str, Argument] = {
        "initial": start,
        "index": index,
        **plan,
        "value": value,
        "inputs": affine,
        "out": out,
        "heads": problem.n_heads,
        "channels": problem.channels,
        "per_row": walk["per_row"],
        "firsts": cut.firsts,
    }
    return out, [first, problem.launch(kernels.carries, len(start), arguments, constants)]


def _walk(problem: Problem, move: str) -> tuple[dict[str, Argument], list[Launch]]:
    """What all phases along tokens take."""
    arguments, before = _maps(problem, move)
    sizes: dict[str, Argument] = {"heads": problem.n_heads, "channels": problem.channels}
    return problem.tokens("value", problem.value) | arguments | sizes | problem.sequences.arguments(), before


@dataclass(frozen=True)
class Forward:
    """Results of a forward scan, once ``launches`` have run: ``states (T, H, N)``, ``final (S, H, N)`` and the state that
    enters each chunk, ``carry (M, H, N)``, or the initial state where no sequence has a second chunk."""

    states: Tensor
    final: Tensor
    carry: Tensor
    launches: list[Launch]


def forward(problem: Problem, inputs: Tensor | None, initial: Tensor, carry: Tensor | None = None) -> Forward:
    """``initial (S, H, N)`` is contiguous and of the dtype of states; with ``carry`` only phase 3 runs."""
    move = _FORWARD[problem.form]
    walk, launches = _walk(problem, move)
    b = problem.tokens("inputs", inputs)
    if carry is None:
        carry, phases = _entering(problem, move, False, walk, b, initial)
        launches += phases
    states, final = problem.empty(problem.value.shape[0]), initial.clone()
    constants = problem.constants(move) | {
        "ROUTED": problem.routes is not None,
        "SINGLE": problem.sequences.single,
        "HAS_INPUTS": inputs is not None,
    }
    arguments = walk | b | {"carry": carry, "states": states, "final": final}
    launches.append(problem.launch(kernels.replay, problem.sequences.n_chunks, arguments, constants))
    return Forward(states, final, carry, launches)


@dataclass(frozen=True)
class Backward:
    """Gradients, once ``launches`` have run."""

    value: Tensor
    inputs: Tensor | None
    initial: Tensor
    launches: list[Launch]


def backward(
    problem: Problem, states: Tensor, initial: Tensor, g_states: Tensor, g_final: Tensor, inputs_dtype: torch.dtype | None
) -> Backward:
    """Gradients of the diagonal, of the inputs in ``inputs_dtype`` (None: not wanted) and of the initial state."""
    move = _ADJOINT[problem.form]
    walk, launches = _walk(problem, move)
    g = problem.tokens("cotangents", g_states)
    as_inputs = {name.replace("cotangents", "inputs"): x for name, x in g.items()}
    carry, phases = _entering(problem, move, True, walk, as_inputs, g_final)
    g_value = torch.empty(states.shape, dtype=problem.value.dtype, device=states.device)
    g_inputs = None if inputs_dtype is None else torch.empty(states.shape, dtype=inputs_dtype, device=states.device)
    g_initial = g_final.clone()
    constants = problem.constants(move) | {
        "ROUTED": problem.routes is not None,
        "SINGLE": problem.sequences.single,
        "HAS_INPUTS": g_inputs is not None,
    }
    results: dict[str, Argument] = {"g_value": g_value, "g_inputs": g_inputs, "g_initial": g_initial}
    arguments = walk | g | {"states": states, "initial": initial, "carry": carry} | results
    replay = problem.launch(kernels.replay_backward, problem.sequences.n_chunks, arguments, constants)
    return Backward(g_value, g_inputs, g_initial, [*launches, *phases, replay])


def cut(problem: Problem, n_sequences: int, chunk: int, offsets: Tensor | None) -> Problem:
    """The same transitions, cut into chunks."""
    return replace(problem, sequences=spans(n_sequences, problem.value.shape[0], chunk, offsets))


def run(launches: Iterator[Launch] | list[Launch]) -> None:
    """Start them in order."""
    for launch in launches:
        launch()
